package input

import (
	"errors"
	"strings"
	"testing"
)

func TestSourcesAreReadAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	sum := strings.Repeat("ab", 32)
	for _, tc := range []struct{ text, place, path, revision, sha256 string }{
		{"s3://my-bucket", "my-bucket", "", "", ""},
		{"S3://my-bucket/", "my-bucket", "", "", ""},
		{"s3://my.bucket/data/train v2/", "my.bucket", "data/train v2/", "", ""},
		{"s3://b-1/what?is=this#part", "b-1", "what?is=this#part", "", ""},
		{"gs://some_bucket/x", "some_bucket", "x", "", ""},
		{"https://example.org/a/b.bin", "https://example.org/a/b.bin", "", "", ""},
		{"https://example.org/b.bin?X-Sig=1#sha256=" + strings.ToUpper(sum), "https://example.org/b.bin?X-Sig=1", "", "", sum},
		{"http://10.0.0.1:8080/b.bin#sha256=" + sum, "http://10.0.0.1:8080/b.bin", "", "", sum},
		{"hf://meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-8B", "", "", ""},
		{"hf://org/name@v1.0/", "org/name", "", "v1.0", ""},
		{"hf://datasets/org/name@main/data/train", "datasets/org/name", "data/train", "main", ""},
		{"hf://org/name@refs/pr/7/a", "org/name", "a", "refs/pr/7", ""},
		{"hf://org/name/model.safetensors", "org/name", "model.safetensors", "", ""},
	} {
		got, err := Parse(tc.text)
		if err != nil || got.Place != tc.place || got.Path != tc.path || got.Revision != tc.revision || got.SHA256 != tc.sha256 || got.String() != tc.text {
			t.Errorf("Parse(%q) = %+v, %v", tc.text, got, err)
		}
	}
}

func TestSourcesThatCannotBeFetchedSayWhatCan(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ text, say, remedy string }{
		{"", "is no source", "s3://"},
		{"./data", "is no source", "s3://"},
		{"s3://", "is no bucket", "s3://BUCKET"},
		{"s3://-x/y", "is no bucket", "s3://BUCKET"},
		{"s3://bucket//x", "two slashes", "one slash"},
		{"s3://buc\nket/x", "is no source", ""},
		{"r2://bucket/x", "nothing is fetched from r2://", "AWS_ENDPOINT_URL"},
		{"az://container/x", "nothing is fetched from az://", "setup"},
		{"https:///x", "is no address", "https://HOST"},
		{"https://user:pass@example.org/x", "password", "secret"},
		{"https://example.org/", "names no file", "one file"},
		{"https://example.org/x#sha256=12", "is no SHA-256", "sha256sum"},
		{"https://example.org/x#top", "ends with #top", "leave it out"},
		{"http://example.org/x", "anybody on the way", "https://"},
		{"hf://gpt2", "names no model", "hf://OWNER/NAME"},
		{"hf://spaces/a/b", "names no model", "datasets"},
		{"hf://../x/y", "names no model", ""},
	} {
		_, err := Parse(tc.text)
		r, ok := errors.AsType[*Refusal](err)
		if !ok || !strings.Contains(r.What, tc.say) || !strings.Contains(r.Remedy, tc.remedy) {
			t.Errorf("Parse(%q) = %v", tc.text, err)
		}
		if strings.Contains(err.Error(), "pass@") {
			t.Errorf("a password is shown: %v", err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"s3://bucket/x", "https://e.org/x#sha256=1", "hf://datasets/a/b@c/d", "://", "hf://a/b@"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		src, err := Parse(s)
		if err != nil {
			if r, ok := errors.AsType[*Refusal](err); !ok || r.What == "" || r.Remedy == "" {
				t.Errorf("Parse(%q) = %v", s, err)
			}
			return
		}
		if src.Place == "" || src.String() != s {
			t.Errorf("Parse(%q) = %+v", s, src)
		}
		if _, err := Open(src, OpenConfig{}); err != nil {
			t.Errorf("Open(%q) = %v", s, err)
		}
	})
}
