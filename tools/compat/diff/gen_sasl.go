package main

import "github.com/twmb/franz-go/pkg/kmsg"

// sasl speaks SASL to a listener without it.
func (g *gen) sasl() {
	if g.chance(50) {
		req := kmsg.NewPtrSASLHandshakeRequest()
		req.Mechanism = oneOf(g, "PLAIN", "SCRAM-SHA-512", "", "x")
		g.add(req)
		return
	}
	req := kmsg.NewPtrSASLAuthenticateRequest()
	req.SASLAuthBytes = oneOf(g, []byte("\x00user\x00password"), []byte{}, []byte{0})
	g.add(req)
}
