package framework

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/spotferry/spotferry/checkpoint"
)

// checkFile returns what is wrong with one file, judged by its ending, or "".
func checkFile(root *os.Root, e entry, all []entry) (string, error) {
	switch base := path.Base(e.path); {
	case strings.HasSuffix(base, ".index.json"):
		return checkIndex(root, e, all)
	case strings.HasSuffix(base, ".json"):
		return checkJSON(root, e)
	case strings.HasSuffix(base, ".safetensors"):
		return checkSafetensors(root, e)
	case strings.HasSuffix(base, ".h5"):
		return checkHDF5(root, e)
	case strings.HasSuffix(base, ".distcp"):
		return checkShard(root, e)
	case torchFile.MatchString(base):
		return checkTorch(root, e)
	}
	return "", nil
}

// torchFile matches what torch.save is known to write. Only an ending that is
// used for nothing else allows to demand that it did.
var torchFile = regexp.MustCompile(`\.(pt|pth|bin|ckpt)$|^(random_states|custom_checkpoint)_\d+\.pkl$`)

func find(entries []entry, name string) (entry, bool) {
	i, ok := slices.BinarySearchFunc(entries, name, func(e entry, s string) int { return strings.Compare(e.path, s) })
	if !ok {
		return entry{}, false
	}
	return entries[i], true
}

// maxRead bounds what is read into memory of one file: a tokenizer has tens of
// megabytes, a safetensors header by its definition at most 100 MB.
const maxRead = 256 << 20

func readFile(root *os.Root, e entry) ([]byte, error) {
	if e.size > maxRead {
		return nil, fmt.Errorf("%w: %q has %d bytes", checkpoint.ErrTooLarge, e.path, e.size)
	}
	f, err := open(root, e.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data := make([]byte, e.size)
	_, err = io.ReadFull(f, data)
	return data, changed(err)
}

// changed is what a file is that ends before the size it had.
func changed(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return gone(err)
}

func checkJSON(root *os.Root, e entry) (string, error) {
	data, err := readFile(root, e)
	if err == nil && !json.Valid(data) {
		return fmt.Sprintf("%q is not valid JSON", e.path), nil
	}
	return "", err
}

// checkIndex makes sure that the shards an index lists are there.
func checkIndex(root *os.Root, e entry, all []entry) (string, error) {
	data, err := readFile(root, e)
	if err != nil {
		return "", err
	}
	var index struct {
		Shards map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(data, &index); err != nil {
		return fmt.Sprintf("%q does not parse: %v", e.path, err), nil
	}
	for _, shard := range index.Shards {
		if _, ok := find(all, path.Join(path.Dir(e.path), shard)); !ok {
			return fmt.Sprintf("%q lists %q, which is not there", e.path, shard), nil
		}
	}
	return "", nil
}
