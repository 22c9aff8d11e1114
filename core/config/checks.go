package config

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
)

func notEmpty(value string) error {
	if strings.TrimSpace(value) == "" {
		return errors.New("value is empty")
	}
	return nil
}

func multipleOf4096(value string) error {
	n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
	if err != nil || n%4096 != 0 {
		return fmt.Errorf("value %s is not a multiple of 4096", value)
	}
	return nil
}

// Listener is one entry of listeners or advertised.listeners.
type Listener struct {
	Name string
	Host string
	Port int
	TLS  bool
}

// Addr is HOST:PORT.
func (l Listener) Addr() string { return net.JoinHostPort(l.Host, strconv.Itoa(l.Port)) }

func checkListeners(value string) error {
	ls := SplitList(value)
	if len(ls) == 0 {
		return errors.New("value is empty: give at least one NAME://HOST:PORT")
	}
	seen := map[string]bool{}
	for _, e := range ls {
		l, err := parseListener(e)
		if err != nil {
			return err
		}
		if seen[l.Name] {
			return fmt.Errorf("listener name %s is used twice: give each listener a name of its own and its protocol in listener.security.protocol.map", l.Name)
		}
		seen[l.Name] = true
	}
	return nil
}

func parseListener(e string) (Listener, error) {
	name, addr, ok := strings.Cut(e, "://")
	if !ok || name == "" {
		return Listener{}, fmt.Errorf("value %q is not NAME://HOST:PORT", e)
	}
	host, port, err := splitHostPort(addr)
	if err != nil {
		return Listener{}, fmt.Errorf("value %q is not NAME://HOST:PORT: %w", e, err)
	}
	return Listener{Name: strings.ToUpper(name), Host: host, Port: port}, nil
}

func splitHostPort(addr string) (string, int, error) {
	host, p, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, errors.New("host and port must be joined by a colon, an IPv6 address in brackets")
	}
	port, err := strconv.ParseUint(p, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("port %q is not a number of 0 to 65535", p)
	}
	return host, int(port), nil
}

func checkHostPort(value string) error {
	if value == "off" {
		return nil
	}
	if _, _, err := splitHostPort(value); err != nil {
		return fmt.Errorf("value %q is not HOST:PORT: %w", value, err)
	}
	return nil
}

func checkProtocolMap(value string) error {
	for _, e := range SplitList(value) {
		name, proto, ok := strings.Cut(e, ":")
		if !ok || name == "" {
			return fmt.Errorf("value %q is not NAME:PROTOCOL", e)
		}
		if proto != "PLAINTEXT" && proto != "SSL" {
			return fmt.Errorf("protocol %q is not one of PLAINTEXT, SSL", proto)
		}
	}
	return nil
}
