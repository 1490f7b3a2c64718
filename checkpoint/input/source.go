package input

import (
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strings"
	"unicode"
)

// Refusal is a source or a file that stays as wrong as it is however often it is tried.
type Refusal struct {
	What   string
	Remedy string
}

func (r *Refusal) Error() string { return r.What + ": " + r.Remedy }

func refusal(remedy, format string, args ...any) *Refusal {
	return &Refusal{What: fmt.Sprintf(format, args...), Remedy: remedy}
}

// Source is where a mount's files come from.
type Source struct {
	Scheme string // "s3", "gs", "https", "http", "hf"
	// Place is a bucket, an address without its fragment, or a repository such as
	// "owner/name" or "datasets/owner/name".
	Place    string
	Path     string // below Place: a file, or what is common to the names of several; "" for all
	Revision string // of a repository; "": its main branch
	SHA256   string // what an address gives, in hex; "": not said
	text     string
}

// String is the source as it was written.
func (s Source) String() string { return s.text }

var (
	bucketName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{1,221}[A-Za-z0-9]$`)
	repository = regexp.MustCompile(`^((?:datasets/)?[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95})(?:@(refs/(?:pr|convert)/[A-Za-z0-9._-]{1,100}|[A-Za-z0-9][A-Za-z0-9._-]{0,254}))?(?:/+(.*))?$`)
	sha256Hex  = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// Parse reads a source; what is wrong is a *Refusal:
//
//	s3://BUCKET/PREFIX     Amazon's S3 and what speaks its protocol
//	gs://BUCKET/PREFIX     Google Cloud Storage
//	https://HOST/FILE      one file; #sha256=HEX behind it says which
//	hf://OWNER/NAME@REV    a model of Hugging Face, hf://datasets/OWNER/NAME a data set
func Parse(text string) (Source, error) {
	s := Source{text: text}
	scheme, rest, found := strings.Cut(text, "://")
	s.Scheme = strings.ToLower(scheme)
	if !found || len(text) > 2048 || strings.ContainsFunc(text, unprintable) {
		return s, refusal("write s3://, gs://, https:// or hf://", "%.100q is no source of files", text)
	}
	switch s.Scheme {
	case "s3", "gs":
		return s.bucket(rest)
	case "http", "https":
		return s.address(text)
	case "hf":
		return s.repository(rest)
	}
	return s, refusal("use s3:// (with AWS_ENDPOINT_URL for what speaks its protocol), gs://, https:// or hf://, or fetch it in setup", "nothing is fetched from %.40s://", s.Scheme)
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) || r == '\\' }

func (s Source) bucket(rest string) (Source, error) {
	s.Place, s.Path, _ = strings.Cut(rest, "/")
	if !bucketName.MatchString(s.Place) {
		return s, refusal(fmt.Sprintf("write %s://BUCKET/PREFIX", s.Scheme), "%.100q is no bucket's name", s.Place)
	}
	if strings.HasPrefix(s.Path, "/") {
		return s, refusal("write one slash", "%.200q has two slashes behind the bucket", s.text)
	}
	return s, nil
}

func (s Source) address(text string) (Source, error) {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" {
		return s, refusal("write https://HOST/FILE", "%.200q is no address", text)
	}
	if u.User != nil {
		return s, refusal("fetch it in setup, with the password as a secret", "%s has a user or password in it, and a job file is no place for one", u.Redacted())
	}
	if sum, ok := strings.CutPrefix(u.Fragment, "sha256="); ok {
		if s.SHA256 = strings.ToLower(sum); !sha256Hex.MatchString(s.SHA256) {
			return s, refusal("write the 64 digits that sha256sum prints", "#sha256=%.80s is no SHA-256", sum)
		}
	} else if u.Fragment != "" {
		return s, refusal("leave it out, or write #sha256=HEX", "%.200q ends with #%.40s", text, u.Fragment)
	}
	if s.Scheme == "http" && s.SHA256 == "" {
		return s, refusal("write https://, or say what it is with #sha256=HEX", "anybody on the way may change what http:// gives")
	}
	if base := path.Base(u.Path); base == "/" || base == "." || strings.HasSuffix(u.Path, "/") {
		return s, refusal("write the address of one file", "%.200q names no file", text)
	}
	u.Fragment, u.RawFragment = "", ""
	s.Place = u.String()
	return s, nil
}

func (s Source) repository(rest string) (Source, error) {
	m := repository.FindStringSubmatch(strings.TrimSuffix(rest, "/"))
	if m == nil || strings.HasPrefix(rest, "spaces/") {
		return s, refusal("write hf://OWNER/NAME, hf://OWNER/NAME@REVISION or hf://datasets/OWNER/NAME", "%.200q names no model or data set", s.text)
	}
	s.Place, s.Revision, s.Path = m[1], m[2], m[3]
	return s, nil
}

// Base is the name of the file at an address.
func (s Source) Base() string {
	u, err := url.Parse(s.Place)
	if err != nil {
		return ""
	}
	return path.Base(u.Path)
}
