package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"
)

// alibabaEndpoint is where a machine of Alibaba Cloud finds its metadata.
const alibabaEndpoint = "http://100.100.100.200"

// Alibaba reads the metadata service of Alibaba Cloud's ECS in its hardened mode,
// in which every question carries a token.
type Alibaba struct{ tokened }

// NewAlibaba returns a reader of the service at endpoint; empty means the usual address.
func NewAlibaba(endpoint string) (*Alibaba, error) {
	m, err := newMetaHTTP(endpoint, alibabaEndpoint)
	if err != nil {
		return nil, err
	}
	return &Alibaba{tokened{metaHTTP: m, header: "X-Aliyun-Ecs-Metadata-Token", ttlHeader: "X-Aliyun-Ecs-Metadata-Token-Ttl-Seconds"}}, nil
}

// Warning implements Metadata: there is a time when the machine will be taken, or
// there is none.
func (m *Alibaba) Warning(ctx context.Context) (*Warning, error) {
	body, header, err := m.get(ctx, "/latest/meta-data/instance/spot/termination-time")
	if errors.Is(err, errNothing) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	at, err := time.Parse(time.RFC3339, string(bytes.TrimSpace(body)))
	if err != nil {
		return nil, fmt.Errorf("termination-time is %.100q, not a time", body)
	}
	w := &Warning{Action: "terminate", Source: "alibaba"}
	w.Left, w.Known = untilThen(at, header.Get("Date"))
	return w, nil
}
