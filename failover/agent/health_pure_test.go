package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/events"
)

func TestWhichLinesOfTheKernelAccuseTheGPU(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, line, fault string }{
		{"fallen off the bus", "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.", "Xid 79 on GPU 0000:3b:00: the GPU has fallen off the bus"},
		{"double-bit error, with the process", "NVRM: Xid (PCI:0000:b3:00): 48, pid=7422, name=python, DBE (double bit error)", "Xid 48 on GPU 0000:b3:00: double-bit ECC error"},
		{"contained memory error", "NVRM: Xid (PCI:0000:10:1c): 94, pid=1896, Contained: SM (0x1)", "Xid 94 on GPU 0000:10:1c: contained ECC error"},
		{"row remapper", "NVRM: Xid (PCI:0000:10:1c): 63, pid=1896, Row Remapper: New row marked for remapping, reset gpu to activate.", "Xid 63 on GPU 0000:10:1c: ECC page retirement or row remapping: to be reset"},
		{"GSP silent", "NVRM: Xid (PCI:0000:01:00): 119, pid=2, name=x, Timeout waiting for RPC from GSP!", "Xid 119 on GPU 0000:01:00: GSP RPC timeout"},
		{"an old driver's line", "NVRM: Xid (0000:01:00): 62, 0005 00000000", "Xid 62 on GPU 0000:01:00: internal micro-controller halt"},
		{"a reset is asked for", "NVRM: Xid (PCI:0000:18:00): 154, pid=1, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)", "Xid 154 on GPU 0000:18:00: the driver asks for a reset"},
		{"a reset is not asked for any more", "NVRM: Xid (PCI:0000:18:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)", ""},
		{"the trainer's own exception", "NVRM: Xid (PCI:0000:cb:00): 13, pid=88, name=python, Graphics SM Warp Exception", ""},
		{"the trainer's own page fault", "NVRM: Xid (PCI:0000:cb:00): 31, pid=88, name=python, MMU Fault", ""},
		{"a reset of the trainer's channel", "NVRM: Xid (PCI:0000:cb:00): 43, pid=88, name=python, Ch 00000010", ""},
		{"a trainer that was killed", "NVRM: Xid (PCI:0000:cb:00): 45, pid=88, Preemptive Channel Removal", ""},
		{"one nobody knows", "NVRM: Xid (PCI:0000:cb:00): 999, something", ""},
		{"no number", "NVRM: Xid (PCI:0000:cb:00): many", ""},
		{"another line", "usb 1-1: new high-speed USB device", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			x, _ := parseXid(tc.line)
			if got := x.fault(); got != tc.fault {
				t.Errorf("%q: %q, want %q", tc.line, got, tc.fault)
			}
		})
	}
	if !switchFault.MatchString("nvidia-nvswitch0: SXid (PCI:0000:86:00.0): 24007, Fatal, Link 44 sourcetrack timeout error (First)") ||
		switchFault.MatchString("nvidia-nvswitch0: SXid (PCI:0000:86:00.0): 22013, Non-fatal, Link 40 Minion Link DLREQ interrupt") {
		t.Error("fatal errors of an NVSwitch are not told from others")
	}
	x, ok := parseXid("NVRM: Xid (PCI:0000:b3:00): 48, pid='7422', name=python")
	if !ok || x.pid != 7422 || x.pci != "0000:b3:00" {
		t.Errorf("read %+v, %v", x, ok)
	}
}

func TestTheKernelsLogIsReadFromNowOn(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "kmsg")
	write := func(s string) {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = f.WriteString(s)
			_ = f.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write("6,1,10,-;before us\n")
	k, err := openKernelLog(path)
	if err != nil {
		t.Fatal(err)
	}
	defer k.close()
	news := func(want ...string) {
		t.Helper()
		if got, err := k.news(); err != nil || len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
			t.Errorf("news %q, %v; want %q", got, err, want)
		}
	}
	news()
	write("4,2,20,-;NVRM: one; with, more\n SUBSYSTEM=pci\n DEVICE=+pci:0000:3b:00.0\n6,3,30,c;half")
	news("NVRM: one; with, more")
	write(" a line\nplain text\n")
	news("half a line", "plain text")
	news()
	write(strings.Repeat("x", 200<<10))
	news()
	write("\nafter it\n")
	if got, _ := k.news(); len(got) == 0 || got[len(got)-1] != "after it" {
		t.Errorf("after a line without end: %.200q", got)
	}
	if _, err := openKernelLog(path + ".none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("opening nothing: %v", err)
	}
}

func TestTheMachinesOwnKernelLogCanBeLookedAt(t *testing.T) {
	t.Parallel()
	k, err := openKernelLog(KernelLogPath)
	if err != nil {
		t.Skipf("this machine does not show it: %v", err)
	}
	defer k.close()
	if _, err := k.news(); err != nil {
		t.Errorf("looking: %v", err)
	}
}

func TestAnAnswerOfNvidiaSMIIsRead(t *testing.T) {
	t.Parallel()
	got, err := parseGPUs([]byte("0, NVIDIA H100 80GB HBM3, 97, 71234, 81559, 64, 688.12\n1, Tesla T4, [N/A], 5, 15360, 41, [Not Supported]\n"), Exit{})
	want := []events.GPUSample{
		{Index: 0, Name: "NVIDIA H100 80GB HBM3", Util: 0.97, MemUsedMiB: 71234, MemMiB: 81559, TempC: 64, PowerW: 688.12},
		{Index: 1, Name: "Tesla T4", MemUsedMiB: 5, MemMiB: 15360, TempC: 41},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, %v", got, err)
	}
	for name, tc := range map[string]struct {
		out  string
		exit Exit
		gone bool
	}{
		"a GPU that is lost, by exit code":  {"", Exit{Code: 15}, true},
		"a GPU that is lost, by words":      {"Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost.  Reboot the system to recover this GPU", Exit{}, true},
		"no GPU at all":                     {"No devices were found", Exit{Code: 6}, true},
		"a driver of another version":       {"Failed to initialize NVML: Driver/library version mismatch", Exit{Code: 18}, false},
		"too few columns":                   {"0, Tesla T4", Exit{}, false},
		"no number":                         {"a, b, c, d, e, f, g", Exit{}, false},
		"a killed one":                      {"", Exit{Code: -1, Signal: "SIGKILL"}, false},
		"something that is no text":         {"\xff\x00\xfe\n\n\"", Exit{}, false},
		"more GPUs than any machine has":    {strings.Repeat("0, T4, 1, 1, 1, 1, 1\n", maxGPUs+1), Exit{}, false},
		"a quotation that goes on for ever": {"0, \"T4, 1, 1, 1, 1, 1", Exit{}, false},
	} {
		if got, err := parseGPUs([]byte(tc.out), tc.exit); err == nil || errors.Is(err, errGPUGone) != tc.gone {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func TestAGPUIsGoneWhenTwoSamplesSaySo(t *testing.T) {
	t.Parallel()
	two, one, lost, hung := make([]events.GPUSample, 2), make([]events.GPUSample, 1), fmt.Errorf("%w: x", errGPUGone), errGPUHung
	type look struct {
		gpus []events.GPUSample
		err  error
	}
	for _, tc := range []struct {
		name  string
		looks []look
		says  string
	}{
		{"one of two is not shown twice", []look{{gpus: two}, {gpus: one}, {gpus: one}}, "shows 1 GPUs where there were 2"},
		{"once is not enough", []look{{gpus: two}, {gpus: one}, {gpus: two}, {gpus: one}}, ""},
		{"it cannot be reached", []look{{gpus: two}, {err: lost}, {err: lost}}, "cannot be reached"},
		{"that nvidia-smi hangs says nothing", []look{{gpus: two}, {err: hung}, {err: hung}, {err: hung}}, ""},
		{"nor does it forgive", []look{{gpus: two}, {gpus: one}, {err: hung}, {gpus: one}}, "shows 1 GPUs"},
		{"a machine that never had any misses none", []look{{err: lost}, {err: lost}, {err: lost}}, ""},
	} {
		var w gpuWatch
		got := ""
		for _, l := range tc.looks {
			got = w.judge(l.gpus, l.err)
		}
		if tc.says == "" && got != "" || !strings.Contains(got, tc.says) {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.says)
		}
	}
}

func TestTextIsBoundAndRepaired(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain": "plain", "a\xffb": "a\uFFFDb", "0123456789": "0123456789", "0123456789x": "0123456…", "012345é789": "012345…", "": "",
	} {
		if got := bound(in, 10); got != want || len(got) > 10 {
			t.Errorf("bound(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestLinesAreCutBetweenCharacters(t *testing.T) {
	t.Parallel()
	var got []string
	l := &lines{take: func(s string) { got = append(got, s) }}
	text := "x" + strings.Repeat("é", maxLine)
	if _, err := l.Write([]byte(text + "\n")); err != nil {
		t.Fatal(err)
	}
	if all := strings.Join(got, ""); all != text || len(got) < 2 {
		t.Errorf("%d lines of %d bytes in all, want %d; broken characters: %v", len(got), len(all), len(text), strings.ContainsRune(all, '\uFFFD'))
	}
	for _, s := range got {
		if len(s) > maxLine {
			t.Errorf("a line of %d bytes", len(s))
		}
	}
}

func TestWhatMayBeSentHasABound(t *testing.T) {
	t.Parallel()
	var a allowance
	at := time.Unix(1, 0)
	sent := 0
	batch := events.LogBatch{Lines: make([]events.LogLine, 100)}
	for i := range batch.Lines {
		batch.Lines[i].Text = strings.Repeat("x", 900)
	}
	for range 400 { // 100 s of a tick every 250 ms
		at = at.Add(250 * time.Millisecond)
		for a.raise(at); !a.spent(); sent += 100 * 1000 {
			a.spend(batch)
		}
	}
	if most := maxBurst + 100*maxRate; sent > most+100*1000 || sent < most-maxRate {
		t.Errorf("%d bytes in 100 s, want about %d", sent, most)
	}
	if a.raise(at.Add(time.Hour)); a.bytes != maxBurst {
		t.Errorf("after an hour of silence %d bytes, want %d", a.bytes, maxBurst)
	}
}

func TestADiskThatIsFullIsNotBroken(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err          error
		full, broken bool
	}{
		{nil, false, false},
		{&fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}, true, false},
		{fmt.Errorf("saving: %w", checkpoint.ErrNoSpace), true, false},
		{syscall.EDQUOT, true, false},
		{&fs.PathError{Op: "write", Path: "x", Err: syscall.EROFS}, false, true},
		{errors.Join(syscall.EIO, fs.ErrClosed), false, true},
		{syscall.EACCES, false, false},
	} {
		if full, broken := noRoom(tc.err), diskFault(tc.err); full != tc.full || broken != tc.broken {
			t.Errorf("%v: full %v, broken %v", tc.err, full, broken)
		}
	}
}
