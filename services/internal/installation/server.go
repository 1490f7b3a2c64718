package installation

import (
	"bytes"
	"fmt"
	"net"
	"text/template"

	"github.com/spotferry/spotferry/events/natsbus"
)

// accountsDir is where a stock nats-server keeps the claims of accounts. Our own
// bus has its own below its directory.
const accountsDir = "nats/accounts"

var serverTemplate = template.Must(template.New("").Parse(`# For a stock nats-server, 2.12 or newer: nats-server -c nats-server.conf, in this directory.
# Accounts of jobs come and go while it runs; the gateway pushes them.
server_name: spotferry
listen: "{{.Listen}}"
operator: {{.Trust.OperatorJWT}}
system_account: {{.Trust.System}}
resolver: {
  type: full
  dir: "{{.Accounts}}"
  allow_delete: true
  hard_delete: true
  interval: "2m"
  timeout: "{{if .Cluster}}1.9s{{else}}1us{{end}}" # nobody else has an account that this server has not
}
jetstream: {
  store_dir: "nats/jetstream"
  sync_interval: always # what is acknowledged is on the disk
  max_memory_store: {{.Memory}}
  max_file_store: {{.Disk}}
}
max_payload: 1MB
ping_interval: "20s"
ping_max: 2
`))

// serverConfig is the configuration of a stock nats-server that does what our own bus does.
func serverConfig(listen string, t natsbus.Trust, replicas int) ([]byte, error) {
	if listen == "" {
		listen = "127.0.0.1:4222"
	}
	if _, _, err := net.SplitHostPort(listen); err != nil {
		return nil, fmt.Errorf("listen %q: give host:port", listen)
	}
	var b bytes.Buffer
	err := serverTemplate.Execute(&b, map[string]any{
		"Listen": listen, "Trust": t, "Accounts": accountsDir, "Cluster": replicas > 1,
		"Memory": natsbus.DefaultMaxMemory, "Disk": natsbus.DefaultMaxStore,
	})
	return b.Bytes(), err
}
