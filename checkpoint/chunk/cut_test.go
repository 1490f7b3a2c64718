package chunk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// safetensors is a file with this header and n bytes of data.
func safetensors(header string, n int) []byte {
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	out = append(out, header...)
	return append(out, make([]byte, n)...)
}

func entry(name, dtype string, begin, end, width int) string {
	return fmt.Sprintf(`"%s":{"dtype":"%s","shape":[%d],"data_offsets":[%d,%d]}`,
		name, dtype, (end-begin)/width, begin, end)
}

func TestCut(t *testing.T) {
	one := "{" + entry("w", "BF16", 0, 200, 2) + "}"
	grown := `{"__metadata__":{"format":"pt","step":"1000"},` + entry("w", "BF16", 0, 200, 2) + "}"
	mixed := "{" + entry("z", "F32", 0, 120, 4) + "," + entry("a", "I64", 200, 400, 8) + "," + entry("b", "BF16", 120, 200, 2) + "}"
	long := "{" + entry("w", "BF16", 0, 10, 2) + strings.Repeat(" ", 200) + "}"
	at := func(header string) int64 { return 8 + int64(len(header)) }

	for _, tc := range []struct {
		name string
		file []byte
		size int64
		want []Piece
	}{
		{"nothing has no pieces", nil, 100, nil},
		{"a plain file is cut from its beginning", zeros(250), 100, []Piece{{0, 100, Bytes}, {100, 100, Bytes}, {200, 50, Bytes}}},
		{"a file as long as a piece is one", zeros(100), 100, []Piece{{0, 100, Bytes}}},
		{"JSON is text", []byte(`{"step": 12, "loss": [1.5, 1.25]}`), 100, []Piece{{0, 33, Text}}},
		{"a piece size of zero means the usual one", zeros(10), 0, []Piece{{0, 10, Bytes}}},
		{"a negative piece size means the usual one", zeros(10), -1, []Piece{{0, 10, Bytes}}},
		{"safetensors are cut where the data begin", safetensors(one, 200), 100,
			[]Piece{{0, at(one), Text}, {at(one), 100, BF16}, {at(one) + 100, 100, BF16}}},
		{"a header that has grown moves no piece of the data", safetensors(grown, 200), 120,
			[]Piece{{0, at(grown), Text}, {at(grown), 120, BF16}, {at(grown) + 120, 80, BF16}}},
		{"a header longer than a piece is cut too", safetensors(long, 10), 100,
			[]Piece{{0, 100, Text}, {100, 100, Text}, {200, at(long) - 200, Text}, {at(long), 10, BF16}}},
		{"a piece is of what most of its bytes are", safetensors(mixed, 400), 190,
			[]Piece{{0, at(mixed), Text}, {at(mixed), 190, F32}, {at(mixed) + 190, 190, Bytes}, {at(mixed) + 380, 20, Bytes}}},
		{"a file still being written is cut where the whole one will be", safetensors(one, 130), 100,
			[]Piece{{0, at(one), Text}, {at(one), 100, BF16}, {at(one) + 100, 30, BF16}}},
		{"a file with a tail is cut as its header says", safetensors(one, 330), 200,
			[]Piece{{0, at(one), Text}, {at(one), 200, BF16}, {at(one) + 200, 130, Bytes}}},
		{"a header that is cut short is not one", safetensors(one, 0)[:40], 100, []Piece{{0, 40, Bytes}}},
		{"a header longer than the file is not one", append([]byte{0, 0, 0, 0, 1, 0, 0, 0}, "{}"...), 100, []Piece{{0, 10, Bytes}}},
		{"a length of 2^63 is not one", append([]byte{0, 0, 0, 0, 0, 0, 0, 0x80}, "{}"...), 100, []Piece{{0, 10, Bytes}}},
		{"overlapping tensors are not understood", safetensors("{"+entry("a", "F32", 0, 80, 4)+","+entry("b", "F32", 40, 80, 4)+"}", 80), 1000,
			[]Piece{{0, 200, Bytes}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := Cut(bytes.NewReader(tc.file), int64(len(tc.file)), tc.size)
			if !reflect.DeepEqual(got, tc.want) {
				t.Errorf("Cut = %v\nwant  %v", got, tc.want)
			}
		})
	}
}

type broken struct{}

func (broken) ReadAt([]byte, int64) (int, error) { return 0, errors.New("input/output error") }

func TestAFileThatCannotBeReadIsCutAsBytes(t *testing.T) {
	want := []Piece{{0, 100, Bytes}, {100, 20, Bytes}}
	if got := Cut(broken{}, 120, 100); !reflect.DeepEqual(got, want) {
		t.Errorf("Cut = %v, want %v", got, want)
	}
}

func TestTensors(t *testing.T) {
	good := `{"__metadata__":{"format":"pt"},` + entry("b", "F16", 40, 60, 2) + "," +
		entry("a", "F32", 0, 40, 4) + "," + entry("none", "F32", 60, 60, 4) + "," +
		`"q":{"dtype":"F4","shape":[3,2],"data_offsets":[60,63]}` + "," +
		`"new":{"dtype":"X9","shape":[5],"data_offsets":[63,70]}` + "}   "
	off := 8 + int64(len(good))
	got, err := Tensors(bytes.NewReader(safetensors(good, 70)), off+70)
	want := []Tensor{
		{"a", "F32", F32, []int64{10}, off, 40},
		{"b", "F16", F16, []int64{10}, off + 40, 20},
		{"none", "F32", F32, []int64{0}, off + 60, 0},
		{"q", "F4", Bytes, []int64{3, 2}, off + 60, 3},
		{"new", "X9", Bytes, []int64{5}, off + 63, 7},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Tensors = %v, %v\nwant      %v", got, err, want)
	}

	for _, tc := range []struct {
		name   string
		header string
		data   int
		want   string
	}{
		{"an empty file", "", -8, "0 bytes are too short for a header"},
		{"no JSON", "not json at all", 0, "the header is not a JSON object"},
		{"a list", "[1,2]", 0, "the header is not a JSON object"},
		{"cut short", `{"a":{"dtype":"F32","shape":[1]`, 0, `tensor "a": unexpected EOF`},
		{"more after the end", `{} {}`, 0, "the header goes on after its end"},
		{"metadata that are no object", `{"__metadata__":3}`, 0, "the header's metadata do not parse"},
		{"an entry that is no object", `{"a":[1]}`, 0, `tensor "a": json:`},
		{"no offsets", `{"a":{"dtype":"F32","shape":[1]}}`, 0, `tensor "a": 0 data_offsets, want 2`},
		{"offsets backwards", `{"a":{"dtype":"F32","shape":[1],"data_offsets":[8,4]}}`, 8, "offsets [8 4] are not a range"},
		{"a negative offset", `{"a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}}`, 8, "offsets [-4 0] are not a range"},
		{"an absurd offset", `{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,9000000000000000000]}}`, 8, "are not a range"},
		{"a shape that does not fit", `{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}`, 8, "F32 of shape [3] does not take 8 bytes"},
		{"a shape that overflows", `{"a":{"dtype":"F32","shape":[4294967296,4294967296,16],"data_offsets":[0,0]}}`, 0, "does not take 0 bytes"},
		{"a gap", "{" + entry("a", "F32", 0, 8, 4) + "," + entry("b", "F32", 12, 16, 4) + "}", 16, `tensor "b" begins at`},
		{"an overlap", "{" + entry("a", "F32", 0, 8, 4) + "," + entry("b", "F32", 4, 8, 4) + "}", 8, `tensor "b" begins at`},
		{"the same name twice", "{" + entry("a", "F32", 0, 8, 4) + "," + entry("a", "F32", 0, 8, 4) + "}", 8, `tensor "a" begins at`},
		{"a file cut short", "{" + entry("a", "F32", 0, 8, 4) + "}", 7, "bytes of"},
		{"a file with a tail", "{" + entry("a", "F32", 0, 8, 4) + "}", 9, "bytes of"},
	} {
		t.Run(tc.name+" is said in words", func(t *testing.T) {
			file := []byte{}
			if tc.data >= 0 {
				file = safetensors(tc.header, tc.data)
			}
			_, err := Tensors(bytes.NewReader(file), int64(len(file)))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Tensors: %v; want %q", err, tc.want)
			}
		})
	}
}

func FuzzCut(f *testing.F) {
	f.Add([]byte{}, int64(3))
	f.Add([]byte(`{"a": 1}`), int64(1))
	f.Add(safetensors("{"+entry("a", "F32", 0, 8, 4)+"}", 8), int64(5))
	f.Add(safetensors("{"+entry("a", "F32", 0, 0, 4)+`,"b":{"dtype":"BF16","shape":[],"data_offsets":[0,2]}}`, 8), int64(100))
	f.Fuzz(func(t *testing.T, file []byte, size int64) {
		list := Cut(bytes.NewReader(file), int64(len(file)), size)
		if size <= 0 {
			size = Size
		}
		var end int64
		for _, p := range list {
			if p.Off != end || p.Len <= 0 || p.Len > size {
				t.Fatalf("piece %v after %d", p, end)
			}
			end += p.Len
		}
		if end != int64(len(file)) {
			t.Fatalf("pieces end at %d of %d", end, len(file))
		}
		tensors, err := Tensors(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			return
		}
		for i, x := range tensors {
			if x.Off+x.Len > int64(len(file)) || i > 0 && x.Off != tensors[i-1].Off+tensors[i-1].Len {
				t.Fatalf("tensor %+v in a file of %d", x, len(file))
			}
		}
	})
}
