package frameworktest

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

func single() []Layout {
	ckpt := func(step int64) string { return fmt.Sprintf("epoch=%d-step=%d.ckpt", step/100, step) }
	const nested = "lightning_logs/version_0/checkpoints/"
	lightning := func(name string, rotates Rotation, file func(int64) string) Layout {
		return Layout{Name: name, Adapter: "lightning", Ranks: 1, Rotates: rotates, own: file, newest: lastCkpt,
			script: func(p *plan) { moved(p, file(p.step), rotates) }}
	}
	orbax := func(step int64) string { return fmt.Sprintf("%d/", step) }
	return []Layout{
		lightning("lightning", Kept, ckpt),
		lightning("lightning-nested", Kept, func(step int64) string { return nested + ckpt(step) }),
		lightning("lightning-last", InPlace, func(int64) string { return "last.ckpt" }),
		{Name: "lightning-unnumbered", Adapter: "lightning", Ranks: 1, Rotates: Kept, newest: lastCkpt,
			own:    func(step int64) string { return fmt.Sprintf("val_loss=0.%d.ckpt", step) },
			script: func(p *plan) { moved(p, fmt.Sprintf("val_loss=0.%d.ckpt", p.step), Kept) }},
		{Name: "orbax", Adapter: "orbax", Ranks: 1, Rotates: After, own: orbax, newest: renamed,
			script: func(p *plan) {
				tmp := fmt.Sprintf("%d.orbax-checkpoint-tmp", p.step)
				p.orbax(tmp)
				p.ranks[0].rename(tmp, fmt.Sprint(p.step))
				p.ranks[0].done()
				p.ranks[0].rotate("[0-9]*", 2)
			}},
		{Name: "orbax-bucket", Adapter: "orbax", Marker: "commit_success.txt", Ranks: 1, Rotates: Kept, own: orbax, newest: marked,
			script: func(p *plan) {
				dir := fmt.Sprint(p.step)
				p.orbax(dir)
				p.ranks[0].text(dir+"/commit_success.txt", "Checkpoint commit was successful to "+dir)
				p.ranks[0].done()
			}},
		{Name: "keras", Adapter: "keras", Ranks: 1, Rotates: InPlace, own: func(int64) string { return "" }, newest: kerasEpoch, script: keras},
		{Name: "plain", Adapter: "plain", Marker: "DONE", Ranks: 2, Rotates: After,
			own:    func(step int64) string { return fmt.Sprintf("step-%d/", step) },
			newest: func(d string) (int64, error) { return highest(d, "step-*/DONE") },
			script: func(p *plan) {
				dir := fmt.Sprintf("step-%d", p.step)
				for i, r := range p.ranks {
					r.mkdir(dir)
					r.file(fmt.Sprintf("%s/rank%d.bin", dir, i), p.bytes(fmt.Sprint(i), 900))
					r.barrier()
				}
				p.ranks[0].text(dir+"/DONE", "")
				p.allDone()
				p.ranks[0].rotate("step-*", 2)
			}},
		{Name: "plain-files", Adapter: "plain", Marker: "*.done", Ranks: 1, Rotates: Kept,
			own:    func(step int64) string { return fmt.Sprintf("step-%d.", step) },
			newest: func(d string) (int64, error) { return highest(d, "step-*.done") },
			script: func(p *plan) {
				base := fmt.Sprintf("step-%d", p.step)
				p.ranks[0].file(base+".pt", p.archive("model"))
				p.ranks[0].file(base+".opt.pt", p.archive("optimizer"))
				p.ranks[0].text(base+".done", "")
				p.ranks[0].done()
			}},
	}
}

// moved is Lightning's atomic save with $TMPDIR on another device: the move is a
// copy under the final name, which then gets the times of the original.
func moved(p *plan, name string, rotates Rotation) {
	r := p.ranks[0]
	if dir := filepath.Dir(name); dir != "." {
		r.mkdir(dir)
	}
	data := p.archive("ckpt", field{"epoch", int(p.step / 100)}, field{"global_step", int(p.step)})
	r.file(staging+"tmpabc", data)
	r.file(name, data)
	r.done()
	r.do(aged, name)
	r.remove(staging + "tmpabc")
}

func (p *plan) orbax(dir string) {
	r := p.ranks[0]
	r.mkdir(dir)
	r.text(dir+"/_CHECKPOINT_METADATA", `{"init_timestamp_nsecs": 1700000000000000000, "commit_timestamp_nsecs": null}`)
	r.mkdir(dir + "/default/d")
	r.file(dir+"/default/d/"+strings.Repeat("0a", 16), p.bytes("d", 1500))
	r.file(dir+"/default/_METADATA", jsonOf(map[string]any{"tree_metadata": map[string]any{}, "use_zarr3": false}))
	r.file(dir+"/default/manifest.ocdbt", p.bytes("manifest", 200))
	r.text(dir+"/_CHECKPOINT_METADATA", `{"init_timestamp_nsecs": 1700000000000000000, "commit_timestamp_nsecs": 1700000001000000000}`)
}

// keras is Keras 3's BackupAndRestore with double_checkpoint.
func keras(p *plan) {
	r := p.ranks[0]
	r.copy("latest.weights.h5", "latest.weights.h5.bkp")
	r.copy("training_metadata.json", "training_metadata.json.bkp")
	r.file("latest.weights.h5", p.hdf5("weights"))
	r.file("training_metadata.json", jsonOf(map[string]any{"epoch": p.step, "batch": 0}))
	r.done()
}

func kerasEpoch(dir string) (int64, error) {
	b, err := os.ReadFile(filepath.Join(dir, "training_metadata.json"))
	var at struct{ Epoch int64 }
	return at.Epoch, errors.Join(err, json.Unmarshal(b, &at))
}

// renamed is Orbax on a disk: what has its final name counts.
func renamed(dir string) (int64, error) {
	found, err := os.ReadDir(dir)
	best := int64(-1)
	for _, f := range found {
		if n, err := strconv.ParseInt(f.Name(), 10, 64); err == nil {
			best = max(best, n)
		}
	}
	if err == nil && best < 0 {
		err = fmt.Errorf("no checkpoint in %s", dir)
	}
	return best, err
}

// marked is Orbax in a bucket: what has no marker does not count.
func marked(dir string) (int64, error) {
	found, err := filepath.Glob(filepath.Join(dir, "[0-9]*", "commit_success.txt"))
	best := int64(-1)
	for _, f := range found {
		best = max(best, numberIn(filepath.Dir(f)))
	}
	if err == nil && best < 0 {
		err = fmt.Errorf("no committed checkpoint in %s", dir)
	}
	return best, err
}

// lastCkpt is ckpt_path="last": the newest last.ckpt, whatever it points to.
func lastCkpt(dir string) (int64, error) {
	var newest string
	var when time.Time
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasPrefix(d.Name(), "last") || !strings.HasSuffix(p, ".ckpt") {
			return err
		}
		info, err := os.Stat(p)
		if err == nil && (newest == "" || info.ModTime().After(when)) {
			newest, when = p, info.ModTime()
		}
		return err
	})
	if err != nil || newest == "" {
		return 0, errors.Join(err, fmt.Errorf("no last.ckpt in %s", dir))
	}
	return globalStep(newest)
}

func globalStep(file string) (int64, error) {
	z, err := zip.OpenReader(file)
	if err != nil {
		return 0, err
	}
	defer z.Close()
	f, err := z.Open("archive/data.pkl")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		return 0, err
	}
	_, rest, ok := bytes.Cut(b, []byte("global_step"))
	if !ok || len(rest) < 7 { // a memo of two bytes, then an integer of five
		return 0, fmt.Errorf("no step in %s", file)
	}
	return int64(binary.LittleEndian.Uint32(rest[3:])), nil
}
