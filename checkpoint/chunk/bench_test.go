package chunk

import (
	"crypto/aes"
	"crypto/cipher"
	"syscall"
	"testing"
	"time"

	"lukechampine.com/blake3"
)

// BenchmarkEncode reports the ratio beside the rate; compare with
// BenchmarkPeers of the same run, for machines and neighbours differ.
func BenchmarkEncode(b *testing.B) {
	for _, d := range benchData() {
		b.Run(d.name, func(b *testing.B) {
			var c Coder
			dst := make([]byte, 0, len(d.data))
			n := len(d.data)
			measure(b, len(d.data), func() {
				if out, codec := c.Encode(dst, d.data, d.elem); codec != Raw {
					n = len(out)
				}
			})
			b.ReportMetric(float64(n)/float64(len(d.data)), "ratio")
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, d := range benchData() {
		b.Run(d.name, func(b *testing.B) {
			var c Coder
			src, codec := c.Encode(nil, d.data, d.elem)
			if codec == Raw {
				src = d.data
			}
			dst := make([]byte, 0, len(d.data))
			measure(b, len(d.data), func() {
				if _, err := c.Decode(dst, src, codec, len(d.data)); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}

// BenchmarkPeers is what one core does to the same bytes anyhow.
func BenchmarkPeers(b *testing.B) {
	data := noise(rng(1), Size)
	dst := make([]byte, len(data)+64)
	block, _ := aes.NewCipher(make([]byte, 32))
	gcm, _ := cipher.NewGCM(block)
	key := NewKey()
	for _, p := range []struct {
		name string
		do   func()
	}{
		{"copy", func() { copy(dst, data) }},
		{"BLAKE3", func() { blake3.Sum256(data) }},
		{"name under a key", func() { key.Name(data) }},
		{"AES-256-GCM", func() { gcm.Seal(dst[:0], make([]byte, 12), data, nil) }},
		{"seal", func() { key.Seal(dst[:0], data, "name", Raw) }},
	} {
		b.Run(p.name, func(b *testing.B) {
			measure(b, len(data), p.do)
		})
	}
}

// measure runs do, and reports besides the rate the one by the process's own
// processor time, which neighbours on the machine disturb less.
func measure(b *testing.B, size int, do func()) {
	b.SetBytes(int64(size))
	b.ReportAllocs()
	do()
	begin := processor()
	for b.Loop() {
		do()
	}
	took := processor() - begin
	b.ReportMetric(float64(b.N)*float64(size)/1e9/took.Seconds(), "GB/cpu-s")
}

func processor() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

type sample struct {
	name string
	data []byte
	elem Elem
}

func benchData() []sample {
	r := rng(42)
	return []sample{
		{"bf16 weights", bf16s(r, Size/2), BF16},
		{"f16 weights", f16s(r, Size/2), F16},
		{"f32 first moments", f32s(r, Size/4), F32},
		{"f32 second moments", squares(r, Size/4), F32},
		{"f32 that were bf16", upcast(r, Size/4), F32},
		{"fp8 weights", fp8s(r, Size), Bytes},
		{"half bf16 half f32, inside an element", append(bf16s(r, Size/4), f32s(r, Size/8)...)[1:], Bytes},
		{"noise", noise(r, Size), Bytes},
		{"zeros", zeros(Size), Bytes},
		{"text", jsonText(r, Size), Text},
	}
}
