package frameworktest

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
)

// bytes returns n bytes that follow from the checkpoint and a name.
func (p *plan) bytes(name string, n int) []byte {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s/%d/%s", p.layout, p.step, name)
	r := rand.New(rand.NewPCG(p.seed, h.Sum64()))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// safetensors returns a file with two tensors.
func (p *plan) safetensors(name string) []byte {
	const n = 1200
	header := fmt.Sprintf(`{"__metadata__":{"format":"pt"},"a":{"dtype":"U8","shape":[200],"data_offsets":[0,200]},"b":{"dtype":"U8","shape":[%d],"data_offsets":[200,%d]}}`, n-200, n)
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), p.bytes(name, n)...)
}

// field is an entry of a pickled dictionary.
type field struct {
	key   string
	value any // int or bool
}

// pickleOf returns a dictionary as pickle's protocol 2 writes it.
func pickleOf(fields ...field) []byte {
	b := []byte("\x80\x02}q\x00(")
	for i, f := range fields {
		b = append(b, 'X')
		b = binary.LittleEndian.AppendUint32(b, uint32(len(f.key)))
		b = append(append(b, f.key...), 'q', byte(i+1))
		switch v := f.value.(type) {
		case bool:
			b = append(b, map[bool]byte{true: 0x88, false: 0x89}[v])
		case int:
			b = append(b, 'J')
			b = binary.LittleEndian.AppendUint32(b, uint32(v))
		}
	}
	return append(b, 'u', '.')
}

// archive returns a file as torch.save writes it.
func (p *plan) archive(name string, fields ...field) []byte {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, m := range []struct {
		name string
		data []byte
	}{{"archive/data.pkl", pickleOf(fields...)}, {"archive/data/0", p.bytes(name, 600)}, {"archive/version", []byte("3\n")}} {
		f, err := w.CreateHeader(&zip.FileHeader{Name: m.name, Method: zip.Store})
		if err == nil {
			_, err = f.Write(m.data)
		}
		if err != nil {
			panic(err) // a buffer takes everything
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// shard returns a .distcp: archives in a row.
func (p *plan) shard(name string) []byte {
	return append(p.archive(name+"#0"), p.archive(name+"#1")...)
}

// metadata returns a .metadata that lists shards, as protocol 4 writes names.
func metadata(shards ...string) []byte {
	b := []byte("\x80\x04\x95\x00\x00\x00\x00\x00\x00\x00\x00]\x94(")
	for _, s := range shards {
		b = append(append(append(b, 0x8c, byte(len(s))), s...), 0x94)
	}
	return append(b, 'e', '.')
}

// hdf5 returns a file with a superblock of version 0 and data.
func (p *plan) hdf5(name string) []byte {
	const size = 2048
	b := append([]byte("\x89HDF\r\n\x1a\n"), 0, 0, 0, 0, 0, 8, 8, 0)
	b = append(b, make([]byte, size-len(b))...)
	binary.LittleEndian.PutUint64(b[40:], size)
	copy(b[96:], p.bytes(name, size-96))
	return b
}

func jsonOf(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // maps of numbers and texts
	}
	return b
}
