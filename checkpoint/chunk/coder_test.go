package chunk

import (
	"bytes"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

const testSize = 640 << 10 // more than a block of the widest elements

// kinds are made once: nobody writes to them.
var kinds = sync.OnceValue(func() []sample {
	r := rng(7)
	cat := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	return []sample{
		{"bf16 weights", bf16s(r, testSize/2), BF16},
		{"f16 weights", f16s(r, testSize/2), F16},
		{"first moments", f32s(r, testSize/4), F32},
		{"second moments", squares(r, testSize/4), F32},
		{"float32 that were bf16", upcast(r, testSize/4), F32},
		{"fp8 weights", fp8s(r, testSize), Bytes},
		{"text", jsonText(r, testSize), Text},
		{"zeros", zeros(testSize), Bytes},
		{"noise", noise(r, testSize), Bytes},
		{"types one after the other", cat(bf16s(r, testSize/8)[1:], noise(r, 100_000), f32s(r, testSize/8), zeros(99_999)), Bytes},
	}
})

func TestEncode(t *testing.T) {
	want := map[string]struct {
		codec Codec
		ratio float64
	}{
		"bf16 weights":              {Planes, 0.68},
		"f16 weights":               {Planes, 0.86},
		"first moments":             {Planes, 0.86},
		"second moments":            {Planes, 0.85},
		"float32 that were bf16":    {Planes, 0.35},
		"fp8 weights":               {Planes, 0.83},
		"text":                      {Zstd, 0.32},
		"zeros":                     {Planes, 0.001},
		"noise":                     {Raw, 1},
		"types one after the other": {Planes, 0.80},
	}
	for _, d := range kinds() {
		t.Run(d.name+" come back the same", func(t *testing.T) {
			got, codec := Encode([]byte("before"), d.data, d.elem)
			if codec != want[d.name].codec {
				t.Fatalf("codec %q, want %q", codec, want[d.name].codec)
			}
			if string(got[:6]) != "before" {
				t.Fatal("what was in dst has changed")
			}
			got = got[6:]
			if codec == Raw {
				if len(got) > 0 {
					t.Fatalf("Raw, and %d bytes appended", len(got))
				}
				got = d.data
			}
			if r := float64(len(got)) / float64(len(d.data)); r > want[d.name].ratio {
				t.Errorf("ratio %.3f, want at most %.3f", r, want[d.name].ratio)
			}
			back, err := Decode([]byte("before"), got, codec, len(d.data))
			if err != nil || string(back[:6]) != "before" || !bytes.Equal(back[6:], d.data) {
				t.Errorf("Decode: %v, or other bytes", err)
			}
		})
		t.Run(d.name+" are found out without a hint", func(t *testing.T) {
			if _, codec := Encode(nil, d.data, Bytes); codec != want[d.name].codec {
				t.Errorf("codec %q, want %q", codec, want[d.name].codec)
			}
		})
		t.Run(d.name+" are estimated within a twentieth", func(t *testing.T) {
			out, codec := Encode(nil, d.data, d.elem)
			if codec == Raw {
				out = d.data
			}
			real := float64(len(out)) / float64(len(d.data))
			if r := Ratio(d.data); codec != Zstd && (r > real+0.05 || r < real-0.05) {
				t.Errorf("Ratio %.3f, encoded %.3f", r, real)
			}
		})
	}
}

func TestAWrongHintCostsOnlyCompression(t *testing.T) {
	var c Coder
	for _, d := range kinds() {
		for _, elem := range elems {
			roundTrip(t, &c, d.data[:100_000], elem)
		}
	}
}

func TestEveryLengthAndEveryAlignment(t *testing.T) {
	var c Coder
	step := 1
	if testing.Short() {
		step = 7
	}
	for _, d := range kinds() {
		for n := 0; n < 600; n += step {
			roundTrip(t, &c, d.data[n%8:n%8+n], d.elem)
		}
		for _, n := range []int{4096, 65_535, blockElems - 1, blockElems, blockElems + 1, blockMax - 7, blockMax + 9} {
			roundTrip(t, &c, d.data[n%5:n%5+n], d.elem)
		}
	}
}

func roundTrip(t interface{ Fatalf(string, ...any) }, c *Coder, data []byte, elem Elem) {
	room := make([]byte, 0, len(data))
	out, codec := c.Encode(room, data, elem)
	if codec == Raw {
		if len(out) != 0 {
			t.Fatalf("%d bytes of %q: Raw, and %d appended", len(data), elem, len(out))
		}
		out = data
	} else if len(out) > len(data)-len(data)/20 {
		t.Fatalf("%d bytes of %q became %d: less than a twentieth gained", len(data), elem, len(out))
	} else if &out[0] != &room[:1][0] {
		t.Fatalf("%d bytes of %q: room for as many was not enough", len(data), elem)
	}
	back, err := c.Decode(nil, out, codec, len(data))
	if err != nil || !bytes.Equal(back, data) {
		t.Fatalf("%d bytes of %q in %q: %v, or other bytes", len(data), elem, codec, err)
	}
}

func TestAnyMixtureComesBack(t *testing.T) {
	var c Coder
	parts := kinds()
	rapid.Check(t, func(t *rapid.T) {
		var data []byte
		for range rapid.IntRange(0, 6).Draw(t, "parts") {
			from := parts[rapid.IntRange(0, len(parts)-1).Draw(t, "kind")].data
			n := rapid.IntRange(0, 50_000).Draw(t, "length")
			off := rapid.IntRange(0, len(from)-n).Draw(t, "offset")
			data = append(data, from[off:off+n]...)
		}
		roundTrip(t, &c, data, elems[rapid.IntRange(0, len(elems)-1).Draw(t, "elem")])
	})
}

func TestDecodeRefuses(t *testing.T) {
	data := bf16s(rng(1), 5000)
	planes, _ := Encode(nil, data, BF16)
	vocabulary := jsonText(rng(1), 5000)
	text, _ := Encode(nil, vocabulary, Text)
	for _, tc := range []struct {
		name  string
		src   []byte
		codec Codec
		size  int
	}{
		{"a codec it does not know", planes, "lz9", len(data)},
		{"raw bytes that are too few", data, Raw, len(data) + 1},
		{"raw bytes that are too many", data, Raw, len(data) - 1},
		{"a negative size", planes, Planes, -1},
		{"a size no piece has", planes, Planes, MaxSize + 1},
		{"nothing, as planes", nil, Planes, len(data)},
		{"planes that end early", planes[:len(planes)-1], Planes, len(data)},
		{"planes that go on", append(bytes.Clone(planes), 0), Planes, len(data)},
		{"planes of more than was promised", planes, Planes, len(data) - 2},
		{"planes of less than was promised", planes, Planes, len(data) + 2},
		{"planes of another version", append([]byte{9}, planes[1:]...), Planes, len(data)},
		{"text as planes", text, Planes, len(vocabulary)},
		{"planes as text", planes, Zstd, len(data)},
		{"nothing, as text", nil, Zstd, 5},
		{"text that ends early", text[:len(text)-1], Zstd, len(vocabulary)},
		{"text of more than was promised", text, Zstd, len(vocabulary) - 1},
		{"text of less than was promised", text, Zstd, len(vocabulary) + 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Decode([]byte("before"), tc.src, tc.codec, tc.size)
			if err == nil || string(got) != "before" {
				t.Errorf("Decode = %d bytes, %v; want dst and an error", len(got), err)
			}
		})
	}
}
