package cli

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const defaultBrokers = "127.0.0.1:9092"

// Environment variables that stand in for flags.
const (
	envBrokers  = "MILLRACE_BROKERS"
	envUser     = "MILLRACE_USER"
	envPassword = "MILLRACE_PASSWORD"
)

// options are the flags that every client command has.
type options struct {
	brokers     []string
	dialTimeout time.Duration
	timeout     time.Duration
	wait        time.Duration

	tls        bool
	caFile     string
	certFile   string
	keyFile    string
	serverName string
	tlsNoCheck bool

	mechanism    string
	user         string
	passwordFile string

	json     bool
	progress bool
}

func (o *options) addFlags(c *cobra.Command) {
	f := c.PersistentFlags()
	f.StringSliceVarP(&o.brokers, "brokers", "b", nil, "addresses of brokers to ask first, HOST[:PORT],... (default $"+envBrokers+", or "+defaultBrokers+")")
	f.DurationVar(&o.dialTimeout, "dial-timeout", 5*time.Second, "how long one connection may take to open, 100ms to 5m")
	f.DurationVar(&o.timeout, "timeout", 10*time.Second, "how long to wait for an answer, 100ms to 1h")
	f.DurationVar(&o.wait, "wait", 0, "keep trying so long while no broker accepts connections, 0 to 1h")
	f.BoolVar(&o.tls, "tls", false, "connect with TLS")
	f.StringVar(&o.caFile, "ca-file", "", "PEM file of the authorities to trust instead of the system's (implies --tls)")
	f.StringVar(&o.certFile, "cert-file", "", "PEM file of the client's certificate (implies --tls)")
	f.StringVar(&o.keyFile, "key-file", "", "PEM file of the client's key")
	f.StringVar(&o.serverName, "tls-server-name", "", "name to expect in the broker's certificate, if not the host's (implies --tls)")
	f.BoolVar(&o.tlsNoCheck, "tls-skip-verify", false, "accept any certificate: encrypted, but open to a man in the middle (implies --tls)")
	f.StringVar(&o.mechanism, "sasl-mechanism", "", "log in by plain, scram-sha-256 or scram-sha-512 (default plain when a user is given)")
	f.StringVar(&o.user, "user", "", "user to log in as (default $"+envUser+")")
	f.StringVar(&o.passwordFile, "password-file", "", "file that holds the password (default: the value of $"+envPassword+")")
	f.BoolVar(&o.json, "json", false, "print JSON instead of a table")
	f.BoolVar(&o.progress, "progress", false, "show progress on stderr even if it is not a terminal")
}

// validate checks the flags and returns the brokers' addresses, each with a port.
func (o *options) validate() ([]string, error) {
	if err := inRange("--dial-timeout", o.dialTimeout, 100*time.Millisecond, 5*time.Minute); err != nil {
		return nil, err
	}
	if err := inRange("--timeout", o.timeout, 100*time.Millisecond, time.Hour); err != nil {
		return nil, err
	}
	if err := inRange("--wait", o.wait, 0, time.Hour); err != nil {
		return nil, err
	}
	list, from := o.brokers, "--brokers"
	if len(list) == 0 {
		if v := os.Getenv(envBrokers); v != "" {
			list, from = strings.Split(v, ","), envBrokers
		} else {
			list = []string{defaultBrokers}
		}
	}
	var out []string
	for _, b := range list {
		addr, err := brokerAddress(strings.TrimSpace(b))
		if err != nil {
			return nil, usagef("%s: %q is not an address: %v", from, b, err).hint("Write HOST:PORT, for example %s; several are separated by commas.", defaultBrokers)
		}
		out = append(out, addr)
	}
	return out, nil
}

// brokerAddress adds the port 9092 where none is given.
func brokerAddress(s string) (string, error) {
	if s == "" {
		return "", fmt.Errorf("it is empty")
	}
	if strings.Contains(s, "/") {
		return "", fmt.Errorf("it is a URL or a path")
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		bare := s
		if inner, ok := strings.CutPrefix(s, "["); ok {
			if bare, ok = strings.CutSuffix(inner, "]"); !ok || bare == "" {
				return "", err
			}
		}
		if strings.Contains(bare, ":") && net.ParseIP(bare) == nil {
			return "", err
		}
		host, port = bare, "9092"
	}
	if strings.ContainsAny(host, "[]") {
		return "", fmt.Errorf("host %q is none", host)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return "", fmt.Errorf("port %q is not in 1..65535", port)
	}
	return net.JoinHostPort(host, port), nil
}

// tlsConfig is nil where the connection is plaintext.
func (o *options) tlsConfig() (*tls.Config, error) {
	if !o.tls && o.caFile == "" && o.certFile == "" && o.keyFile == "" && o.serverName == "" && !o.tlsNoCheck {
		return nil, nil
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: o.serverName, InsecureSkipVerify: o.tlsNoCheck}
	if o.caFile != "" {
		pem, err := os.ReadFile(o.caFile)
		if err != nil {
			return nil, usagef("--ca-file: %v", err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, usagef("--ca-file: %s holds no PEM certificate", o.caFile)
		}
	}
	if (o.certFile == "") != (o.keyFile == "") {
		return nil, usagef("--cert-file and --key-file go together, one of them is missing")
	}
	if o.certFile != "" {
		cert, err := tls.LoadX509KeyPair(o.certFile, o.keyFile)
		if err != nil {
			return nil, usagef("--cert-file, --key-file: %v", err)
		}
		conf.Certificates = []tls.Certificate{cert}
	}
	return conf, nil
}

// login is nil where no user is given.
func (o *options) login() (sasl.Mechanism, error) {
	user := o.user
	if user == "" {
		user = os.Getenv(envUser)
	}
	if user == "" {
		if o.mechanism != "" || o.passwordFile != "" {
			return nil, usagef("a login needs a user").hint("Give --user or set %s.", envUser)
		}
		return nil, nil
	}
	pass := os.Getenv(envPassword)
	if o.passwordFile != "" {
		b, err := os.ReadFile(o.passwordFile)
		if err != nil {
			return nil, usagef("--password-file: %v", err)
		}
		pass = strings.TrimRight(string(b), "\r\n")
	}
	if pass == "" {
		return nil, usagef("no password for user %q", user).hint("Give --password-file or set %s.", envPassword)
	}
	switch strings.ToLower(o.mechanism) {
	case "", "plain":
		return plain.Auth{User: user, Pass: pass}.AsMechanism(), nil
	case "scram-sha-256":
		return scram.Auth{User: user, Pass: pass}.AsSha256Mechanism(), nil
	case "scram-sha-512":
		return scram.Auth{User: user, Pass: pass}.AsSha512Mechanism(), nil
	}
	return nil, badChoice("--sasl-mechanism", o.mechanism, "plain", "scram-sha-256", "scram-sha-512")
}
