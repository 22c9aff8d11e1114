package kafka

import "github.com/twmb/franz-go/pkg/kmsg"

// No listener speaks SASL. A client that is set up for it is told so at its
// handshake, as by a listener of Kafka's without SASL; a connection that closes
// without an answer would make it try again for ever.

// serveSASLHandshake refuses, and names no mechanism.
func serveSASLHandshake(r *Request) {
	resp := kmsg.NewPtrSASLHandshakeResponse()
	resp.ErrorCode = codeIllegalSASLState
	r.Reply(resp)
}

func serveSASLAuthenticate(r *Request) {
	resp := kmsg.NewPtrSASLAuthenticateResponse()
	resp.ErrorCode, resp.ErrorMessage = codeIllegalSASLState, kmsg.StringPtr("this listener does not speak SASL: leave security.protocol at PLAINTEXT, or SSL where it has TLS")
	r.Reply(resp)
}
