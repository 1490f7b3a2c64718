package process

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const probeLimit = 5 * time.Second

// Probe asks an admin port whether its program is ready; an error says why it is not.
func Probe(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/readyz?verbose", nil)
	if err != nil {
		return fmt.Errorf("%s: %w: %w", addr, err, ErrUsage)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s", strings.TrimSpace(string(body)))
	}
	return err
}
