package listener

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

// certificates holds a TLS listener's certificate and client authorities, and
// reads them again when their files change. The files are looked at by time and
// size: what mounts secrets swaps symbolic links, which file watching misses.
type certificates struct {
	// Immutable.
	files TLSFiles
	logf  func(format string, args ...any)

	// Atomic.
	current atomic.Pointer[loadedCertificates]
	reloads atomic.Uint64
}

type loadedCertificates struct {
	cert   tls.Certificate
	roots  *x509.CertPool
	stamps [3]fileStamp
}

type fileStamp struct {
	modified time.Time
	size     int64
}

// CertificateError is the refusal of a TLS listener's files; its text names the
// file and what is wrong with it.
type CertificateError struct{ err error }

func (e *CertificateError) Error() string { return e.err.Error() }

func (e *CertificateError) Unwrap() error { return e.err }

func loadCertificates(files TLSFiles, logf func(string, ...any)) (*certificates, error) {
	c := &certificates{files: files, logf: logf}
	loaded, err := c.load()
	if err != nil {
		return nil, &CertificateError{err}
	}
	c.current.Store(loaded)
	return c, nil
}

func (c *certificates) stamps() (s [3]fileStamp, err error) {
	for i, name := range [3]string{c.files.Certificate, c.files.Key, c.files.ClientCAs} {
		if name == "" {
			continue
		}
		if s[i], err = stampOf(name); err != nil {
			return s, err
		}
	}
	return s, nil
}

// stampOf opens the file: one that may not be read any more has the same time.
func stampOf(name string) (fileStamp, error) {
	f, err := os.Open(name)
	if err != nil {
		return fileStamp{}, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return fileStamp{}, err
	}
	return fileStamp{fi.ModTime(), fi.Size()}, nil
}

func (c *certificates) load() (*loadedCertificates, error) {
	stamps, err := c.stamps()
	if err != nil {
		return nil, err
	}
	out := &loadedCertificates{stamps: stamps}
	if out.cert, err = tls.LoadX509KeyPair(c.files.Certificate, c.files.Key); err != nil {
		return nil, fmt.Errorf("certificate %s with key %s: %w", c.files.Certificate, c.files.Key, err)
	}
	if c.files.ClientCAs != "" {
		pem, err := os.ReadFile(c.files.ClientCAs)
		if err != nil {
			return nil, err
		}
		out.roots = x509.NewCertPool()
		if !out.roots.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate", c.files.ClientCAs)
		}
	} else if c.files.ClientAuth == "required" || c.files.ClientAuth == "requested" {
		return nil, errors.New("client certificates are asked for (ssl.client.auth) and there is no ssl.truststore.file to check them against")
	}
	return out, nil
}

// watch reads the files again when they change, until ctx ends. Files that are
// gone or do not load leave the certificate in use and are complained of once,
// and once more when they are as they were.
func (c *certificates) watch(ctx context.Context) {
	every := c.files.CheckEvery
	if every <= 0 {
		every = 5 * time.Second
	}
	complaint := ""
	for {
		sleep(ctx, every)
		if ctx.Err() != nil {
			return
		}
		stamps, err := c.stamps()
		if err == nil && complaint == "" && stamps == c.current.Load().stamps {
			continue
		}
		var next *loadedCertificates
		if err == nil {
			next, err = c.load()
		}
		switch {
		case err != nil:
			if complaint != err.Error() {
				complaint = err.Error()
				c.logf("the TLS files are not used, those read before are served on: %s", complaint)
			}
			continue
		case next.stamps == c.current.Load().stamps:
			c.logf("the TLS files are back as they were")
		default:
			c.reloads.Add(1)
			c.logf("read the TLS certificate %s again", c.files.Certificate)
		}
		complaint = ""
		c.current.Store(next)
	}
}

// config is what connections are served with; each handshake takes the newest
// certificate and authorities.
func (c *certificates) config() *tls.Config {
	auth := map[string]tls.ClientAuthType{
		"required":  tls.RequireAndVerifyClientCert,
		"requested": tls.VerifyClientCertIfGiven,
	}[c.files.ClientAuth] // none where it is not in the table
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			now := c.current.Load()
			return &tls.Config{
				MinVersion:   tls.VersionTLS12,
				Certificates: []tls.Certificate{now.cert},
				ClientAuth:   auth,
				ClientCAs:    now.roots,
			}, nil
		},
	}
}
