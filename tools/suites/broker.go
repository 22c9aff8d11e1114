package main

import (
	"context"
	"fmt"
	"net"
	"time"

	"millrace/bench/peers"
)

// startBroker starts the broker under test, or the reference. Its settings are
// those that kafka-go's authors use: topics are created on demand, messages may
// be large, and the reference also has what the excluded tests need, an
// authorizer and a listener with SASL, so that what passes there is known.
func startBroker(ctx context.Context, o options, dir string) (peers.Broker, error) {
	for _, a := range []string{brokerAddr, saslAddr} {
		if c, err := net.DialTimeout("tcp", a, time.Second); err == nil {
			c.Close()
			return nil, fmt.Errorf("something listens on %s already; kafka-go's tests know no other address", a)
		}
	}
	return o.broker.Start(ctx, 2*time.Minute,
		peers.MillraceOptions{Dir: dir, Addr: brokerAddr, Config: []string{"message.max.bytes=100000000"}},
		peers.KafkaOptions{Dir: dir, Addr: brokerAddr, More: []string{"SASL_PLAINTEXT://" + saslAddr}, HeapMB: 1024, Config: kafkaConfig, Format: kafkaUsers})
}

var kafkaConfig = []string{
	"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
	"message.max.bytes=200000000",
	"authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
	"allow.everyone.if.no.acl.found=true",
	"super.users=User:ANONYMOUS;User:adminplain;User:adminscram256;User:adminscram512",
	"sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
	"listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_adminplain=\"admin-secret\";",
	"listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;",
	"listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;",
	"listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=\"admin\";",
}

var kafkaUsers = []string{
	"--add-scram", "SCRAM-SHA-256=[name=adminscram256,password=admin-secret-256]",
	"--add-scram", "SCRAM-SHA-512=[name=adminscram512,password=admin-secret-512]",
}
