package served

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/checkpoint"
)

// ServeHTTP does what a signed request may.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	has, no := s.admit(r)
	if no != nil {
		no.write(w)
		return
	}
	select {
	case s.room <- struct{}{}:
		defer func() { <-s.room }()
	default:
		w.Header().Set("Retry-After", "1")
		(&refusal{http.StatusServiceUnavailable, "SlowDown", "as many requests as it takes are being served"}).write(w)
		return
	}
	switch has.verb {
	case checkpoint.VerbPut:
		s.put(w, r, has)
	case checkpoint.VerbGet:
		s.get(w, r, has)
	case checkpoint.VerbHead:
		s.head(w, r, has)
	}
}

func (s *Service) put(w http.ResponseWriter, r *http.Request, has right) {
	if r.ContentLength != has.size {
		(&refusal{http.StatusBadRequest, "EntityTooLarge", fmt.Sprintf("signed for %d bytes, with their Content-Length", has.size)}).write(w)
		return
	}
	if _, err := s.cfg.Store.Stat(r.Context(), has.name); err == nil {
		s.fail(w, has, checkpoint.ErrExists) // before a body comes that nobody wants
		return
	}
	body := &paced{r: r.Body, pace: s.pace(has.size), set: http.NewResponseController(w).SetReadDeadline}
	if err := s.cfg.Store.Put(r.Context(), has.name, body, has.size); err != nil {
		if body.err != nil { // the machine went away or stood still: it asks again
			panic(http.ErrAbortHandler)
		}
		s.fail(w, has, err)
		return
	}
	w.WriteHeader(http.StatusCreated)
}

func (s *Service) head(w http.ResponseWriter, r *http.Request, has right) {
	size, err := s.cfg.Store.Stat(r.Context(), has.name)
	if err != nil {
		s.fail(w, has, err)
		return
	}
	w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	w.Header().Set("Accept-Ranges", "bytes")
	w.WriteHeader(http.StatusOK)
}

func (s *Service) get(w http.ResponseWriter, r *http.Request, has right) {
	size, err := s.cfg.Store.Stat(r.Context(), has.name)
	if err != nil {
		s.fail(w, has, err)
		return
	}
	status, off, n := http.StatusOK, int64(0), size
	if first, last, ok := span(r.Header.Get("Range")); ok {
		if first >= size {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes */%d", size))
			(&refusal{http.StatusRequestedRangeNotSatisfiable, "InvalidRange", "the object ends before the range"}).write(w)
			return
		}
		last = min(last, size-1)
		status, off, n = http.StatusPartialContent, first, last-first+1
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, size))
	}
	in, err := s.open(r.Context(), has.name, off, n, size)
	if err != nil {
		w.Header().Del("Content-Range")
		s.fail(w, has, err)
		return
	}
	w.Header().Set("Content-Length", strconv.FormatInt(n, 10))
	w.Header().Set("Content-Type", "application/octet-stream")
	w.WriteHeader(status)
	out := &paced{w: w, pace: s.pace(n), set: http.NewResponseController(w).SetWriteDeadline}
	got, err := io.Copy(out, io.LimitReader(in, n))
	if err = errors.Join(err, in.Close()); err != nil || got != n {
		s.cfg.Log.Warn("object not given whole", zap.String("object", has.name), zap.Int64("bytes", got), zap.Int64("of", n), zap.Error(err))
		panic(http.ErrAbortHandler) // so that it cannot be taken for whole
	}
}

// open opens a part of an object. The whole is a Get, which some stores check.
func (s *Service) open(ctx context.Context, name string, off, n, size int64) (io.ReadCloser, error) {
	if n == size {
		return s.cfg.Store.Get(ctx, name)
	}
	return s.cfg.Store.Range(ctx, name, off, n)
}

// span reads a Range header of the one form that machines send, "bytes=a-b" or
// "bytes=a-". As HTTP wants, any other is as if there were none.
func span(header string) (first, last int64, ok bool) {
	from, to, found := strings.Cut(strings.TrimPrefix(header, "bytes="), "-")
	first, err := strconv.ParseInt(from, 10, 64)
	if !found || !strings.HasPrefix(header, "bytes=") || err != nil || first < 0 {
		return 0, 0, false
	}
	last = 1<<63 - 1
	if to != "" {
		last, err = strconv.ParseInt(to, 10, 64)
	}
	return first, last, err == nil && last >= first
}

// refusal is an answer without an object, in S3's form, which machines read.
type refusal struct {
	status  int
	Code    string
	Message string
}

func (f *refusal) write(w http.ResponseWriter) {
	body, err := xml.Marshal(struct {
		XMLName xml.Name `xml:"Error"`
		Code    string
		Message string
	}{Code: f.Code, Message: f.Message})
	if err != nil {
		body = nil // it is but an explanation
	}
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(f.status)
	_, _ = w.Write(body) // whoever asked may have left
}

// fail answers what a store's error means. What has no meaning to a machine is
// told as trouble, which it waits out, and logged: it may name places of ours.
func (s *Service) fail(w http.ResponseWriter, has right, err error) {
	f := &refusal{http.StatusInternalServerError, "InternalError", "the store does not work; the gateway's log says why"}
	switch {
	case errors.Is(err, checkpoint.ErrExists):
		f = &refusal{http.StatusPreconditionFailed, "PreconditionFailed", "there is an object of that name"}
	case errors.Is(err, checkpoint.ErrNotFound):
		f = &refusal{http.StatusNotFound, "NoSuchKey", "there is no object of that name"}
	case errors.Is(err, checkpoint.ErrNoSpace):
		f = &refusal{http.StatusInsufficientStorage, "StorageQuotaExceeded", "the store is full"}
	case errors.Is(err, checkpoint.ErrSize):
		f = &refusal{http.StatusBadRequest, "IncompleteBody", "the body is not of the size signed"}
	}
	if f.status >= http.StatusInternalServerError {
		s.cfg.Log.Warn("object request not served", zap.String("verb", string(has.verb)), zap.String("object", has.name), zap.Error(err))
	}
	f.write(w)
}

// pace is how long a machine may take for a body: it may stand still for a
// Stall, and may not drip.
type pace struct {
	stall time.Duration
	ends  time.Time
}

func (s *Service) pace(size int64) pace {
	return pace{s.cfg.Stall, time.Now().Add(s.cfg.Stall + time.Duration(size)*time.Second/leastRate)}
}

func (p pace) next() time.Time {
	if t := time.Now().Add(p.stall); t.Before(p.ends) {
		return t
	}
	return p.ends
}

// paced is a body, of a request or an answer, under a pace.
type paced struct {
	r    io.Reader
	w    io.Writer
	pace pace
	set  func(time.Time) error
	end  bool  // of a request was read: the server reads ahead now, without a deadline
	err  error // what broke it
}

func (p *paced) Read(b []byte) (int, error) {
	if p.end {
		return 0, io.EOF
	}
	if err := p.set(p.pace.next()); err != nil {
		return 0, err
	}
	n, err := p.r.Read(b)
	p.end = errors.Is(err, io.EOF)
	if err != nil && !p.end {
		p.err = err
	}
	return n, err
}

func (p *paced) Write(b []byte) (int, error) {
	if err := p.set(p.pace.next()); err != nil {
		return 0, err
	}
	return p.w.Write(b)
}
