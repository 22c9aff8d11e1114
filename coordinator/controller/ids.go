package controller

import (
	"encoding/base64"

	"millrace/core"
)

// text writes a UUID as Kafka does.
func text(id core.TopicID) string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// clusterID does not begin with a dash, so that it can be given as an argument.
func clusterID(s *core.IDSource) string {
	for {
		if t := text(s.UUID()); t[0] != '-' {
			return t
		}
	}
}
