package kafka

import (
	"regexp"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// softwarePattern is what a client's software name and version must look like
// (KIP-511).
var softwarePattern = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?$`)

// serveApiVersions lists the table of API keys and the features (KIP-35,
// KIP-511, KIP-584).
func serveApiVersions(r *Request) {
	req := r.Body.(*kmsg.ApiVersionsRequest)
	resp := kmsg.NewPtrApiVersionsResponse()
	if code := checkApiVersions(r, req); code != codeNone {
		resp.ErrorCode = code
		r.Reply(resp)
		return
	}
	resp.ApiKeys = advertised(&r.w.server.table)
	r.addFeatures(resp)
	r.Reply(resp)
}

func checkApiVersions(r *Request, req *kmsg.ApiVersionsRequest) int16 {
	if r.Version < 3 {
		return codeNone
	}
	if !softwarePattern.MatchString(req.ClientSoftwareName) || !softwarePattern.MatchString(req.ClientSoftwareVersion) {
		return codeInvalidRequest
	}
	client := &r.conn.Info().Client
	client.SoftwareName, client.SoftwareVersion = req.ClientSoftwareName, req.ClientSoftwareVersion
	if r.Version < 5 {
		return codeNone
	}
	if (req.ClusterID == nil) != (req.NodeID == -1) {
		return codeInvalidRequest
	}
	if req.ClusterID != nil && (*req.ClusterID != r.Image().ClusterID || req.NodeID != int32(r.Options().Node)) {
		return codeRebootstrapRequired
	}
	return codeNone
}

func advertised(t *apiTable) []kmsg.ApiVersionsResponseApiKey {
	keys := make([]kmsg.ApiVersionsResponseApiKey, len(t.rows))
	for i, a := range t.rows {
		keys[i] = kmsg.ApiVersionsResponseApiKey{ApiKey: int16(a.key), MinVersion: a.min, MaxVersion: a.max}
	}
	return keys
}

// addFeatures lists the finalized feature levels.
func (r *Request) addFeatures(resp *kmsg.ApiVersionsResponse) {
	for _, f := range features {
		if r.Version < 4 && f.min == 0 {
			continue // clients below version 4 reject a minimum of 0
		}
		s := kmsg.NewApiVersionsResponseSupportedFeature()
		s.Name, s.MinVersion, s.MaxVersion = f.name, f.min, f.max
		resp.SupportedFeatures = append(resp.SupportedFeatures, s)
	}
	resp.FinalizedFeaturesEpoch = int64(r.Image().Version)
	for _, f := range features {
		if f.level == 0 {
			continue
		}
		l := kmsg.NewApiVersionsResponseFinalizedFeature()
		l.Name, l.MinVersionLevel, l.MaxVersionLevel = f.name, f.level, f.level
		resp.FinalizedFeatures = append(resp.FinalizedFeatures, l)
	}
}

// features are the levels that this release supports and runs at. Levels that
// would tell clients to use an API that is not in the table are not raised.
var features = []struct {
	name            string
	min, max, level int16
}{}

// replyUnknownApiVersion answers an ApiVersions version of the future with a
// version 0 body that names the versions served of this one API (KIP-511).
func replyUnknownApiVersion(r *Request) {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.ErrorCode = codeUnsupportedVersion
	resp.ApiKeys = []kmsg.ApiVersionsResponseApiKey{{ApiKey: r.Key, MinVersion: r.api.min, MaxVersion: r.api.max}}
	r.Version = 0
	r.Reply(resp)
}
