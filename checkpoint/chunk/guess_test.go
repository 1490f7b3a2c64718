package chunk

import (
	"bytes"
	"math"
	"testing"
)

func TestGuess(t *testing.T) {
	r := rng(11)
	weights, moments := bf16s(r, 32<<10), f32s(r, 16<<10)
	for _, tc := range []struct {
		name   string
		sample []byte
		want   Elem
	}{
		{"bf16 weights", weights, BF16},
		{"bf16 weights from the middle of an element", weights[1:], BF16},
		{"half precision has the same codec", f16s(r, 32<<10), BF16},
		{"first moments", moments, F32},
		{"first moments from the middle of an element", moments[3:], F32},
		{"second moments", squares(r, 16<<10), F32},
		{"float32 that were bf16", upcast(r, 16<<10), F32},
		{"a few elements are enough", moments[:512], F32},
		{"fp8 has one byte per element", fp8s(r, 64<<10), Bytes},
		{"noise", noise(r, 64<<10), Bytes},
		{"zeros", zeros(64 << 10), Bytes},
		{"nothing", nil, Bytes},
		{"three bytes", []byte{1, 2, 3}, Bytes},
		{"a vocabulary", jsonText(r, 64<<10), Text},
		{"a vocabulary from the middle of a character", jsonText(r, 64<<10)[8:], Text},
		{"a log line", []byte("step 12 loss 1.25\n"), Text},
		{"text that goes over into tensors", append(jsonText(r, 4096), weights...), BF16},
		{"a pickle", []byte("\x80\x04\x95\x0c\x00\x00\x00\x00\x00\x00\x00\x8c\x08argparse\x94."), Bytes},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := Guess(tc.sample); got != tc.want {
				t.Errorf("Guess = %q, want %q", got, tc.want)
			}
		})
	}
}

func TestLog2IsCloseEnough(t *testing.T) {
	for x := uint32(1); x <= sampleBytes; x++ {
		if d := math.Abs(log2(x) - math.Log2(float64(x))); d > 0.01 {
			t.Fatalf("log2(%d) is off by %.4f", x, d)
		}
	}
}

func FuzzGuess(f *testing.F) {
	f.Add([]byte("text"))
	f.Add(noise(rng(1), 500))
	f.Add(append([]byte("\xe5\xad"), bytes.Repeat([]byte{0x1a}, 3000)...)) // next to no entropy
	f.Fuzz(func(t *testing.T, b []byte) {
		Guess(b)
		if r := Ratio(b); !(r >= 0 && r <= 1) {
			t.Fatalf("Ratio = %v", r)
		}
	})
}

func TestWorth(t *testing.T) {
	const GB = 1e9
	for _, tc := range []struct {
		name                 string
		size                 int64
		upload, codec, ratio float64
		want                 bool
	}{
		{"a slow link is", GB, 0.1 * GB, 0.5 * GB, 0.67, true},
		{"a link as fast as the codec is not", GB, 0.5 * GB, 0.5 * GB, 0.67, false},
		{"a codec just fast enough to gain a tenth with half of its time is not", GB, 0.45, 1, 0.5, false},
		{"a codec faster than that is", GB, 0.44, 1, 0.5, true},
		{"many idle cores are, on a fast link", GB, 1 * GB, 8 * GB, 0.67, true},
		{"two cores on that link are not", GB, 1 * GB, 1 * GB, 0.67, false},
		{"a gain of less than a tenth is not", GB, 0.1 * GB, 10 * GB, 0.91, false},
		{"a gain of more than a tenth is", GB, 0.1 * GB, 10 * GB, 0.89, true},
		{"the size makes no difference", 1, 0.1 * GB, 0.5 * GB, 0.67, true},
		{"nothing is not", 0, 0.1 * GB, 0.5 * GB, 0.67, false},
		{"an unknown link is not", GB, 0, 0.5 * GB, 0.67, false},
		{"an unknown codec is not", GB, 0.1 * GB, 0, 0.67, false},
		{"an unknown ratio is not", GB, 0.1 * GB, 0.5 * GB, 0, false},
		{"rates that are no numbers are not", GB, math.NaN(), math.NaN(), math.NaN(), false},
		{"a link without end is not", GB, math.Inf(1), 0.5 * GB, 0.67, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := Worth(tc.size, tc.upload, tc.codec, tc.ratio); got != tc.want {
				t.Errorf("Worth = %v, want %v", got, tc.want)
			}
		})
	}
}
