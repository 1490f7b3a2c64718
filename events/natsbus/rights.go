package natsbus

import (
	"slices"
	"time"

	"github.com/nats-io/jwt/v2"

	"github.com/spotferry/spotferry/events"
)

// Rights are what one service may do in MAIN beyond reading the streams. Nobody
// may delete, purge or change a stream; what is in a bucket its owners may remove for good.
type Rights struct {
	Publish   []string // subjects it writes or asks on
	Subscribe []string // subjects it answers on
	Buckets   []string // key-value buckets that are its own
}

const (
	answersMost = 1024             // pages of one answer
	answersLast = 20 * time.Minute // a seller may take that long
)

// buckets are those that not every service may read.
func buckets() []string { return []string{bootstrapBucket, secretsBucket} }

// bootstrapBucket holds what machines are born with.
const bootstrapBucket = "sf_bootstrap"

// Limited mints the credential of a service that may read the streams, make
// those that are missing, keep consumers of them, answer what it is asked, set dead letters
// aside, and what rights say. What it may and may not stands in the token, which a
// server takes up to 4 KiB of: wildcards, and what they are not to cover, are shorter than a list.
func (o *Operator) Limited(name string, rights Rights) (Credentials, error) {
	return o.mint(o.mainKey, func(pub string) *jwt.UserClaims {
		c := limitedUser(pub, name, Validity{})
		c.Limits.Payload = jwt.NoLimit // the server's own limit holds
		c.Pub.Allow.Add("$JS.API.INFO", "$JS.API.STREAM.INFO.*", "$JS.API.STREAM.MSG.GET.*", "$JS.API.CONSUMER.CREATE.>",
			"$JS.API.CONSUMER.DURABLE.CREATE.>", "$JS.API.CONSUMER.INFO.*.*", "$JS.API.CONSUMER.DELETE.*.*", "$JS.API.CONSUMER.MSG.NEXT.*.*",
			"$JS.ACK.>", events.SubjectDead+">")
		for _, s := range table() {
			c.Pub.Allow.Add("$JS.API.STREAM.CREATE." + s.name) // no other: one could be a copy of what it may not read
		}
		for _, b := range buckets() {
			stream := "KV_" + b
			if slices.Contains(rights.Buckets, b) {
				c.Pub.Allow.Add("$JS.API.STREAM.CREATE."+stream, "$JS.API.DIRECT.GET."+stream, "$JS.API.DIRECT.GET."+stream+".>",
					"$KV."+b+".>", "$JS.API.STREAM.PURGE."+stream, "$JS.API.STREAM.MSG.DELETE."+stream)
				continue
			}
			c.Pub.Deny.Add("$JS.API.STREAM.MSG.GET."+stream, "$JS.API.CONSUMER.CREATE."+stream, "$JS.API.CONSUMER.CREATE."+stream+".>",
				"$JS.API.CONSUMER.DURABLE.CREATE."+stream+".>")
		}
		c.Pub.Allow.Add(rights.Publish...)
		c.Sub.Allow.Add(rights.Subscribe...)
		c.Resp = &jwt.ResponsePermission{MaxMsgs: answersMost, Expires: answersLast}
		return c
	})
}
