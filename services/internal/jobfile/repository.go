package jobfile

import (
	"net/url"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Repository is a workdir that is fetched with git before it is packed. What
// travels is what Ref was at submission, on every machine the same.
type Repository struct {
	URL string // https or ssh, without a password
	Ref string // branch, tag or commit; "": what the server calls HEAD
}

var (
	scpForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*@[A-Za-z0-9][A-Za-z0-9.-]*:[A-Za-z0-9._~/-]+$`)
	gitRef  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/+@-]{0,254}$`)
)

const repositoryRemedy = "write https://host/owner/name.git or git@host:owner/name.git"

func (r *reader) readRepositoryURL(path string, n *yaml.Node) {
	s, ok := r.text(path, n)
	if !ok {
		return
	}
	if wrong, remedy := checkRepository(s); wrong != "" {
		r.refuse(placeOf(n), path, remedy, "workdir.url %s", wrong)
		return
	}
	r.job.Repository = &Repository{URL: s}
}

// checkRepository says why git may not be given an address. It never quotes one:
// people put tokens into them.
func checkRepository(s string) (wrong, remedy string) {
	if scpForm.MatchString(s) {
		return "", ""
	}
	u, err := url.Parse(s)
	if err != nil || strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c == 0x7F }) {
		return "is no address", repositoryRemedy
	}
	_, password := u.User.Password()
	switch {
	case u.Scheme != "https" && u.Scheme != "ssh":
		return "is neither https nor ssh: git would read it from elsewhere, or run a program for it", repositoryRemedy
	case password, u.Scheme == "https" && u.User != nil:
		return "has a credential in it", "leave it out: git asks its own credential helper, or your ssh agent"
	case u.Host == "" || strings.HasPrefix(u.Host, "-") || strings.HasPrefix(u.User.Username(), "-") || strings.Trim(u.Path, "/") == "":
		return "names no repository", repositoryRemedy
	}
	return "", ""
}

func (r *reader) readRepositoryRef(path string, n *yaml.Node) {
	s, ok := r.text(path, n)
	if !ok {
		return
	}
	if !gitRef.MatchString(s) || strings.Contains(s, "..") || strings.HasSuffix(s, ".lock") {
		r.refuse(placeOf(n), path, "write a branch, a tag or a commit", "workdir.ref is %s", quoted(s))
		return
	}
	r.ref = s
}

// repository joins the two, whichever stands first.
func (r *reader) repository() {
	at, named := r.at["workdir.ref"]
	switch {
	case r.job.Repository != nil:
		r.job.Repository.Ref = r.ref
	case named && r.at["workdir.url"] == (place{}):
		r.refuse(at, "workdir.url", repositoryRemedy, "workdir.ref is given without workdir.url")
	}
}
