package kafka

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
)

// Endpoint types of DescribeCluster v1 (KIP-919).
const (
	endpointBrokers     = 1
	endpointControllers = 2
)

// serveDescribeCluster tells the cluster's ID, controller and brokers (KIP-700).
func serveDescribeCluster(r *Request) {
	req := r.Body.(*kmsg.DescribeClusterRequest)
	resp := kmsg.NewPtrDescribeClusterResponse()
	switch req.EndpointType {
	case endpointBrokers:
	case endpointControllers:
		resp.ErrorCode = codeMismatchedEndpointType
		resp.ErrorMessage = kmsg.StringPtr("The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER")
	default:
		resp.ErrorCode = codeUnsupportedEndpointType
		resp.ErrorMessage = kmsg.StringPtr(fmt.Sprintf("Unsupported endpoint type %d", req.EndpointType))
	}
	resp.ControllerID = int32(core.NoNode)
	if resp.ErrorCode != codeNone {
		r.Reply(resp)
		return
	}
	im := r.Image()
	resp.ClusterID, resp.ControllerID = im.ClusterID, int32(im.Controller)
	if req.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = clusterOperations
	}
	for _, b := range im.Brokers {
		rb := kmsg.NewDescribeClusterResponseBroker()
		rb.NodeID = int32(b.ID)
		rb.Host, rb.Port = r.BrokerAddr(b)
		if b.Rack != "" {
			rb.Rack = kmsg.StringPtr(b.Rack)
		}
		resp.Brokers = append(resp.Brokers, rb)
	}
	r.Reply(resp)
}
