package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// explain turns what a command failed with into an Error. ctx is the one that an
// interrupt ends, without the command's time limit.
func (s *session) explain(ctx context.Context, err error) error {
	var known *Error
	var path *fs.PathError
	var op *net.OpError
	var ke *kerr.Error
	switch {
	case errors.As(err, &path) && errors.Is(err, syscall.EPIPE):
		return nil // whoever read our output has enough
	case errors.Is(ctx.Err(), context.Canceled):
		return failf(ExitInterrupted, "interrupted").cause(err)
	case errors.As(err, &known):
		return err
	case errors.As(err, &ke):
		return explainCode("", ke, "").cause(err)
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, kgo.ErrRecordTimeout):
		return s.timedOut(err)
	case errors.As(err, &op) && op.Op == "dial":
		if addr, last := s.dialer.lastFailure(); last != nil {
			return s.lostBroker(addr, last)
		}
		return s.unreachable(ctx, err)
	case errors.Is(err, io.EOF), errors.As(err, &op):
		return failf(ExitUnreachable, "the broker closed the connection: %v", err).
			hint("Look into the broker's log; if it restarted, try again.").cause(err)
	}
	return failf(ExitFailed, "%v", err).cause(err)
}

// timedOut says what was waited for, and names a broker that could not be dialled.
func (s *session) timedOut(err error) *Error {
	if addr, last := s.dialer.lastFailure(); last != nil {
		return s.lostBroker(addr, last)
	}
	return failf(ExitUnreachable, "no answer within %v", s.opts.timeout).
		hint("The broker accepts connections but does not answer: look into its log and load,\nor wait longer with --timeout.").cause(err)
}

// lostBroker is a failed dial after a first broker has answered: either that one
// went away, or it advertises an address that is of no use here.
func (s *session) lostBroker(addr string, err error) *Error {
	e := failf(ExitUnreachable, "broker %s cannot be reached: %s", addr, reason(err)).cause(err)
	for _, a := range s.addrs {
		if a == addr {
			return e.hint("It answered before: it may be restarting. Try again, or look into its log.")
		}
	}
	return e.hint("%s answers, but tells clients to connect to %s.\nMake the broker advertise an address that this machine can reach.", joinSome(s.addrs, 3), addr)
}

// unreachable explains that no address accepted a connection.
func (s *session) unreachable(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return err
	}
	var all *dialErrors
	if !errors.As(err, &all) {
		all = &dialErrors{addrs: s.addrs[:1], errs: []error{err}}
	}
	for i, e := range all.errs {
		if t := explainTLS(all.addrs[i], e); t != nil {
			return t
		}
	}
	const what = "Start a broker with \"millrace serve\", or name another one with --brokers HOST:PORT\nor in " + envBrokers + "."
	if len(all.addrs) == 1 {
		return failf(ExitUnreachable, "no broker at %s: %s", all.addrs[0], reason(all.errs[0])).hint(what).cause(err)
	}
	var each []string
	for i, a := range all.addrs {
		each = append(each, a+": "+reason(all.errs[i]))
	}
	return failf(ExitUnreachable, "none of the %d brokers can be reached", len(all.addrs)).
		hint("%s\n%s", strings.Join(each, "\n"), what).cause(err)
}

// explainTLS recognises a failed handshake; nil where it is something else.
func explainTLS(addr string, err error) *Error {
	var record tls.RecordHeaderError
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var alert tls.AlertError
	var shake *handshakeError
	if !errors.As(err, &shake) {
		return nil
	}
	switch {
	case errors.As(err, &record):
		return failf(ExitUnreachable, "%s does not speak TLS", addr).
			hint("Leave out --tls and the other TLS flags, or use the port of the broker's TLS listener.").cause(err)
	case errors.As(err, &unknown):
		return failf(ExitUnreachable, "the certificate of %s is signed by an unknown authority", addr).
			hint("Give the authority's certificate with --ca-file FILE.").cause(err)
	case errors.As(err, &host):
		return failf(ExitUnreachable, "the certificate of %s is for another name: %v", addr, shake.err).
			hint("Connect by that name, or expect it with --tls-server-name NAME.").cause(err)
	case errors.As(err, &invalid):
		return failf(ExitUnreachable, "the certificate of %s is not valid: %v", addr, shake.err).
			hint("Renew the broker's certificate, or check this machine's clock.").cause(err)
	case errors.As(err, &alert):
		return failf(ExitUnreachable, "%s refused the TLS handshake: %v", addr, shake.err).
			hint("If the broker asks for client certificates, give --cert-file and --key-file.").cause(err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return failf(ExitUnreachable, "%s accepts connections but does not answer the TLS handshake", addr).
			hint("It probably does not speak TLS: leave out --tls and the other TLS flags,\nor use the port of the broker's TLS listener.").cause(err)
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return failf(ExitUnreachable, "%s closed the connection during the TLS handshake", addr).
			hint("It probably does not speak TLS: leave out --tls and the other TLS flags,\nor use the port of the broker's TLS listener.").cause(err)
	}
	return nil
}

// unanswered explains that a connection was accepted but the first request failed.
func (s *session) unanswered(ctx context.Context, err error) error {
	addr := joinSome(s.addrs, 3)
	var first *kgo.ErrFirstReadEOF
	var ke *kerr.Error
	var op *net.OpError
	switch {
	case errors.Is(ctx.Err(), context.Canceled), errors.As(err, &ke):
		return err
	case strings.Contains(err.Error(), "tls alert"):
		return wantsTLS(addr).cause(err)
	case s.login && (errors.As(err, &first) || errors.Is(err, io.EOF)):
		return failf(ExitUnauthorized, "%s closed the connection during the login", addr).
			hint("Check --user, the password and --sasl-mechanism.").cause(err)
	case errors.As(err, &first) && s.dialer.tls != nil:
		return failf(ExitUnreachable, "%s closed the connection at the first request", addr).
			hint("It may want a login: give --user and --password-file.").cause(err)
	case errors.As(err, &first), errors.Is(err, syscall.ECONNRESET):
		return failf(ExitUnreachable, "%s closed the connection at the first request", addr).
			hint("It may speak TLS only: try --tls (with --ca-file FILE for a private authority).\nIf it wants a login, give --user and --password-file. If it is no Kafka port, use another one.").cause(err)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &op) && op.Timeout(), errors.Is(err, os.ErrDeadlineExceeded):
		return s.timedOut(err)
	}
	return failf(ExitUnreachable, "%s does not answer as a Kafka broker does: %v", addr, err).
		hint("Check host and port in --brokers or %s.", envBrokers).cause(err)
}

func wantsTLS(addr string) *Error {
	return failf(ExitUnreachable, "%s speaks TLS, and this is a plaintext connection", addr).
		hint("Add --tls (with --ca-file FILE for a private authority), or use the port of the plaintext listener.")
}

// reason is the short cause of a failed dial.
func reason(err error) string {
	var dns *net.DNSError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return "no connection in time"
	case errors.As(err, &dns) && dns.IsNotFound:
		return "no host of the name " + dns.Name
	case errors.As(err, &dns):
		return "the name " + dns.Name + " could not be looked up: " + dns.Err
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		return op.Err.Error()
	}
	return err.Error()
}

// advice is the next step for an error code of the protocol.
var advice = map[int16]struct {
	code int
	do   string
}{
	kerr.TopicAuthorizationFailed.Code:           {ExitUnauthorized, "Log in as a user with rights to the topic (--user), or have them granted."},
	kerr.GroupAuthorizationFailed.Code:           {ExitUnauthorized, "Log in as a user with rights to the group (--user), or have them granted."},
	kerr.ClusterAuthorizationFailed.Code:         {ExitUnauthorized, "Log in as a user with rights to the cluster (--user), or have them granted."},
	kerr.TransactionalIDAuthorizationFailed.Code: {ExitUnauthorized, "Log in as a user with rights to the transactional id (--user), or have them granted."},
	kerr.SaslAuthenticationFailed.Code:           {ExitUnauthorized, "Check --user, the password and --sasl-mechanism."},
	kerr.UnsupportedSaslMechanism.Code:           {ExitUnauthorized, "Choose another --sasl-mechanism: plain, scram-sha-256 or scram-sha-512."},
	kerr.IllegalSaslState.Code:                   {ExitUnauthorized, "The broker wants no login here, or another one: check --user and --sasl-mechanism."},
	kerr.UnknownTopicOrPartition.Code:            {ExitNotFound, "\"millrace topic list\" shows the topics."},
	kerr.UnknownTopicID.Code:                     {ExitNotFound, "The topic was deleted meanwhile. \"millrace topic list\" shows the topics."},
	kerr.GroupIDNotFound.Code:                    {ExitNotFound, "\"millrace group list\" shows the groups."},
	kerr.TopicAlreadyExists.Code:                 {ExitFailed, "Add --if-not-exists where that is fine."},
	kerr.InvalidTopicException.Code:              {ExitUsage, "A topic's name has 1 to 249 letters, digits, dots, underscores or hyphens, and is not \".\" or \"..\"."},
	kerr.InvalidReplicationFactor.Code:           {ExitUsage, "It can be at most the number of brokers: see \"millrace cluster describe\"."},
	kerr.InvalidPartitions.Code:                  {ExitUsage, "A topic has at least one partition, and their number can only grow."},
	kerr.InvalidConfig.Code:                      {ExitUsage, "\"millrace config get topic NAME --all\" shows the settings of a topic, \"config get broker ID --all\" those of a broker."},
	kerr.NonEmptyGroup.Code:                      {ExitFailed, "Stop its members first: \"millrace group describe GROUP\" shows them."},
	kerr.GroupSubscribedToTopic.Code:             {ExitFailed, "Members of the group still read that topic. Stop them first: \"millrace group describe GROUP\" shows them."},
	kerr.UnknownMemberID.Code:                    {ExitFailed, "The group has members that are still running. Stop them first: \"millrace group describe GROUP\" shows them."},
	kerr.RebalanceInProgress.Code:                {ExitFailed, "The group is distributing its partitions. Try again in a moment."},
	kerr.OffsetOutOfRange.Code:                   {ExitUsage, "\"millrace topic describe NAME\" shows the offsets that each partition has."},
	kerr.MessageTooLarge.Code:                    {ExitFailed, "Raise the topic's limit: \"millrace config set topic NAME max.message.bytes=BYTES\"."},
	kerr.RecordListTooLarge.Code:                 {ExitFailed, "Raise the topic's limit: \"millrace config set topic NAME max.message.bytes=BYTES\"."},
	kerr.NotEnoughReplicas.Code:                  {ExitFailed, "Too few replicas are in sync: \"millrace topic describe NAME\" shows which ones are."},
	kerr.LeaderNotAvailable.Code:                 {ExitUnreachable, "The partition has no leader now: \"millrace topic describe NAME\" shows it. Try again in a moment."},
	kerr.CoordinatorNotAvailable.Code:            {ExitUnreachable, "The group's coordinator is not ready. Try again in a moment."},
	kerr.CoordinatorLoadInProgress.Code:          {ExitUnreachable, "The group's coordinator is not ready. Try again in a moment."},
	kerr.KafkaStorageError.Code:                  {ExitFailed, "The broker's disk is full or damaged: look into its log."},
	kerr.UnsupportedVersion.Code:                 {ExitFailed, "This broker is too old, or does not have this function: \"millrace cluster describe --apis\" shows what it has."},
	kerr.TopicDeletionDisabled.Code:              {ExitFailed, "The broker is configured not to delete topics."},
	kerr.PolicyViolation.Code:                    {ExitFailed, ""},
	kerr.RequestTimedOut.Code:                    {ExitUnreachable, "The broker could not finish in time. See whether it took effect, then try again or raise --timeout."},
}

// explainCode explains an error code that a broker answered about what; detail is
// the broker's own message, if any.
func explainCode(what string, err *kerr.Error, detail string) *Error {
	text := detail
	if text == "" {
		text = strings.TrimSuffix(err.Description, ".")
	}
	msg := fmt.Sprintf("%s (%s)", strings.TrimSuffix(text, "."), err.Message)
	if what != "" {
		msg = what + ": " + msg
	}
	a, ok := advice[err.Code]
	if !ok {
		return failf(ExitFailed, "%s", msg).cause(err)
	}
	return (&Error{Code: a.code, What: msg, Do: a.do}).cause(err)
}

// explainErr is explainCode for any error; one without a code is kept.
func explainErr(what string, err error, detail string) error {
	if err == nil {
		return nil
	}
	var ke *kerr.Error
	if errors.As(err, &ke) {
		return explainCode(what, ke, detail)
	}
	return fmt.Errorf("%s: %w", what, err)
}
