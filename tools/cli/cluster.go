package cli

import (
	"context"
	"net"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func (a *app) clusterCommand() *cobra.Command {
	return family("cluster", "Describe brokers, controller and features of the cluster", "", a.clusterDescribe())
}

type clusterDescription struct {
	ClusterID  string       `json:"cluster_id"`
	Controller int32        `json:"controller"` // -1: none
	Brokers    []brokerRow  `json:"brokers"`
	Features   []featureRow `json:"features"`
	APIs       []apiRow     `json:"apis"`
}

type brokerRow struct {
	ID         int32  `json:"id"`
	Host       string `json:"host"`
	Port       int32  `json:"port"`
	Rack       string `json:"rack"`
	Controller bool   `json:"controller"`
	Error      string `json:"error,omitempty"`
}

type featureRow struct {
	Feature      string `json:"feature"`
	SupportedMin int16  `json:"supported_min"`
	SupportedMax int16  `json:"supported_max"`
	Finalized    *int16 `json:"finalized"` // missing where it is not in use
}

type apiRow struct {
	Key  int16  `json:"key"`
	Name string `json:"name"`
	Min  int16  `json:"min"`
	Max  int16  `json:"max"`
}

func (a *app) clusterDescribe() *cobra.Command {
	var apis bool
	c := &cobra.Command{
		Use: "describe", Short: "Show cluster id, controller, brokers and features", Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.admin(cmd, func(ctx context.Context, s *session) error {
				d, err := s.describeCluster(ctx)
				if err != nil {
					return err
				}
				return s.print(d, func(t *textOut) { printCluster(t, d, apis) })
			})
		},
	}
	c.Flags().BoolVar(&apis, "apis", false, "list the protocol's APIs and versions too (JSON always has them)")
	return c
}

func (s *session) describeCluster(ctx context.Context) (clusterDescription, error) {
	d := clusterDescription{Controller: -1, Brokers: []brokerRow{}, Features: []featureRow{}, APIs: []apiRow{}}
	m, err := s.adm.BrokerMetadata(ctx)
	if err != nil {
		return d, err
	}
	versions, err := s.adm.ApiVersions(ctx)
	if err != nil {
		return d, err
	}
	d.ClusterID, d.Controller = m.Cluster, m.Controller
	for _, b := range m.Brokers {
		row := brokerRow{ID: b.NodeID, Host: b.Host, Port: b.Port, Controller: b.NodeID == m.Controller}
		if b.Rack != nil {
			row.Rack = *b.Rack
		}
		if v, ok := versions[b.NodeID]; !ok || v.Err != nil {
			row.Error = "does not answer"
		} else if len(d.APIs) == 0 {
			d.APIs, d.Features = apiRows(v), featureRows(v.Raw())
		}
		d.Brokers = append(d.Brokers, row)
	}
	return d, nil
}

func apiRows(v kadm.BrokerApiVersions) []apiRow {
	rows := []apiRow{}
	v.EachKeySorted(func(key, min, max int16) {
		rows = append(rows, apiRow{key, kmsg.NameForKey(key), min, max})
	})
	return rows
}

func featureRows(r *kmsg.ApiVersionsResponse) []featureRow {
	final := map[string]int16{}
	for _, f := range r.FinalizedFeatures {
		final[f.Name] = f.MaxVersionLevel
	}
	byName := map[string]featureRow{}
	for _, f := range r.SupportedFeatures {
		row := featureRow{Feature: f.Name, SupportedMin: f.MinVersion, SupportedMax: f.MaxVersion}
		if l, ok := final[f.Name]; ok {
			row.Finalized = &l
		}
		byName[f.Name] = row
	}
	rows := []featureRow{}
	for _, n := range sortedKeys(byName) {
		rows = append(rows, byName[n])
	}
	return rows
}

func printCluster(t *textOut, d clusterDescription, apis bool) {
	controller := "none"
	if d.Controller >= 0 {
		controller = num(d.Controller)
	}
	t.pairs("Cluster", dash(d.ClusterID), "Controller", controller, "Brokers", num(len(d.Brokers)))
	t.line("")
	var rows [][]string
	for _, b := range d.Brokers {
		rows = append(rows, []string{num(b.ID), net.JoinHostPort(b.Host, num(b.Port)), dash(b.Rack), b.Error})
	}
	t.table([]string{"BROKER", "ADDRESS", "RACK", "ERROR"}, rows)
	if len(d.Features) > 0 {
		t.line("")
		rows = nil
		for _, f := range d.Features {
			rows = append(rows, []string{f.Feature, num(f.SupportedMin) + "-" + num(f.SupportedMax), optional(f.Finalized)})
		}
		t.table([]string{"FEATURE", "SUPPORTED", "IN USE"}, rows)
	}
	if apis {
		t.line("")
		rows = nil
		for _, a := range d.APIs {
			rows = append(rows, []string{num(a.Key), dash(a.Name), num(a.Min) + "-" + num(a.Max)})
		}
		t.table([]string{"KEY", "API", "VERSIONS"}, rows)
	}
}
