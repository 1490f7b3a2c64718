package input

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"strings"
	"sync"
)

// hub is a repository of Hugging Face, or of what speaks its protocol.
type hub struct {
	source   Source
	client   client
	endpoint string
	header   map[string]string

	mu     sync.Mutex
	commit string            // that the revision is, once listed
	direct map[string]string // name to where the bytes are, which lasts for some minutes
}

const hubEndpoint = "https://huggingface.co"

func openHub(s Source, cfg OpenConfig) (*hub, error) {
	h := &hub{source: s, client: newClient(cfg), endpoint: hubEndpoint, header: map[string]string{}, direct: map[string]string{}}
	if e := strings.TrimRight(cfg.Getenv("HF_ENDPOINT"), "/"); e != "" {
		u, err := url.Parse(e)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
			return nil, refusal("give https:// and a host", "HF_ENDPOINT is %.100q, which is no address", e)
		}
		h.endpoint = e
	}
	if token := strings.TrimSpace(cfg.Getenv("HF_TOKEN")); token != "" {
		h.header["Authorization"] = "Bearer " + token
	}
	return h, nil
}

// api is the address of the repository in the API.
func (h *hub) api() string {
	if strings.HasPrefix(h.source.Place, "datasets/") {
		return h.endpoint + "/api/" + h.source.Place
	}
	return h.endpoint + "/api/models/" + h.source.Place
}

var commitHex = regexp.MustCompile(`^[0-9a-f]{40}$|^[0-9a-f]{64}$`)

// List implements [Remote]: the files of one commit, whatever the branch does meanwhile.
func (h *hub) List(ctx context.Context) ([]File, error) {
	doing := "listing " + h.source.String()
	revision := h.source.Revision
	if revision == "" {
		revision = "main"
	}
	var at struct {
		SHA string `json:"sha"`
	}
	if _, err := h.client.decode(ctx, doing, h.api()+"/revision/"+url.PathEscape(revision), h.header, &at); err != nil {
		return nil, h.fail(err)
	}
	if !commitHex.MatchString(at.SHA) {
		return nil, fmt.Errorf("%s: the answer has no commit", doing)
	}
	h.mu.Lock()
	h.commit = at.SHA
	h.mu.Unlock()
	entries, err := h.tree(ctx, doing, at.SHA)
	if err != nil {
		return nil, h.fail(err)
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Path
	}
	return listed(doing, h.source.Path, names, func(i int) File { return entries[i].file() })
}

type entry struct {
	Type string `json:"type"`
	Path string `json:"path"`
	Size int64  `json:"size"`
	OID  string `json:"oid"`
	LFS  *struct {
		OID  string `json:"oid"`
		Size int64  `json:"size"`
	} `json:"lfs"`
}

// file is the entry with the sum of its content, which is its name, too: weights
// that several repositories have are one file.
func (e entry) file() File {
	f := File{Size: e.Size}
	switch {
	case e.LFS != nil && sha256Hex.MatchString(e.LFS.OID):
		f.Size, f.Sum = e.LFS.Size, "sha256:"+e.LFS.OID
	case e.LFS == nil && commitHex.MatchString(e.OID) && len(e.OID) == 40:
		f.Sum = "git:" + e.OID
	}
	f.Key = f.Sum
	return f
}

// mostPages bounds a list that leads on without end.
const mostPages = 10_000

func (h *hub) tree(ctx context.Context, doing, commit string) (all []entry, err error) {
	next := h.api() + "/tree/" + commit + "?recursive=true"
	for range mostPages {
		var some []entry
		header, err := h.client.decode(ctx, doing, next, h.header, &some)
		if err != nil {
			return nil, err
		}
		for _, e := range some {
			if e.Type == "file" && e.Size >= 0 {
				all = append(all, e)
			}
		}
		if next = nextPage(header.Get("Link")); next == "" {
			return all, nil
		}
		if !strings.HasPrefix(next, h.endpoint+"/") { // the token goes nowhere else
			return nil, fmt.Errorf("%s: the list goes on at another host", doing)
		}
	}
	return nil, refusal("mount a directory of it", "%s: it has no end", doing)
}

func nextPage(link string) string {
	for one := range strings.SplitSeq(link, ",") {
		at, params, _ := strings.Cut(one, ";")
		if strings.Contains(params, `rel="next"`) {
			return strings.Trim(strings.TrimSpace(at), "<>")
		}
	}
	return ""
}

// Open implements [Remote]. A file's address leads to another, which is asked
// directly for the parts that follow: the hub counts what it is asked.
func (h *hub) Open(ctx context.Context, f File, off, n int64) (io.ReadCloser, error) {
	doing := fmt.Sprintf("fetching %s of %s", f.name, h.source)
	h.mu.Lock()
	direct, commit := h.direct[f.name], h.commit
	h.mu.Unlock()
	if direct != "" {
		if r, _, err := h.client.part(ctx, doing, direct, nil, f, off, n); err == nil || ctx.Err() != nil {
			return r, err
		}
		h.remember(f.name, "")
	}
	at := h.endpoint + "/" + h.source.Place + "/resolve/" + commit + "/" + (&url.URL{Path: f.name}).EscapedPath()
	r, a, err := h.client.part(ctx, doing, at, h.header, f, off, n)
	if err != nil {
		return nil, h.fail(err)
	}
	if end := a.Request.URL; end.Host != "" && !strings.HasPrefix(end.String(), h.endpoint+"/") {
		h.remember(f.name, end.String())
	}
	return r, nil
}

func (h *hub) remember(name, direct string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.direct[name] = direct
}

func (h *hub) fail(err error) error {
	if r, ok := errors.AsType[*Refusal](err); ok && h.header["Authorization"] == "" {
		r.Remedy = "correct the name; for a private or gated repository give the job HF_TOKEN as a secret"
	}
	return err
}
