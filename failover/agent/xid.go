package agent

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// xid is an error that NVIDIA's driver wrote to the kernel log.
type xid struct {
	number int
	pci    string
	pid    int // 0: not said
	text   string
}

// machineXids are the errors after which a GPU, or the way to it, is not to be
// trusted before somebody has reset or replaced it, which nobody can who rents
// it. All others are left to the trainer's own end: 13, 31, 43, 45, 68, 69 and
// 109 are what a bug in its kernels looks like, the rest informs.
//
// From NVIDIA's Xid catalog (docs.nvidia.com/deploy/xid-errors, columns
// "immediate" and "investigatory action"). 63, 92 and 94 leave the GPU usable
// there until it is reset at leisure; a job that can move has no reason to wait.
var machineXids = map[int]string{
	46:  "the GPU stopped processing",
	48:  "double-bit ECC error",
	61:  "internal micro-controller breakpoint",
	62:  "internal micro-controller halt",
	63:  "ECC page retirement or row remapping: to be reset",
	64:  "ECC page retirement or row remapping failed",
	74:  "NVLink error",
	79:  "the GPU has fallen off the bus",
	92:  "high rate of single-bit ECC errors",
	94:  "contained ECC error",
	95:  "uncontained ECC error",
	110: "security fault",
	119: "GSP RPC timeout",
	120: "GSP error",
	121: "C2C link error",
	136: "link training failed",
	140: "unrecovered ECC error",
	143: "the GPU did not initialise",
	144: "NVLink: SAW error",
	145: "NVLink: RLW error",
	146: "NVLink: TLW error",
	147: "NVLink: TREX error",
	148: "NVLink: NVLPW control error",
	149: "NVLink: NETIR error",
	150: "NVLink: MSE error",
	154: "the driver asks for a reset", // only if it does: see fault
	155: "NVLink: software-defined error",
	156: "resource retirement",
	158: "the GPU timed out for good",
}

// xidLine is the driver's line, old and new. The pid is quoted when it is unknown.
var xidLine = regexp.MustCompile(`NVRM: Xid \((?:PCI:)?([0-9A-Fa-f:.]{4,16})\): (\d{1,4})(?:, pid='?(\d+))?`)

// parseXid reads a line of the kernel log.
func parseXid(line string) (xid, bool) {
	m := xidLine.FindStringSubmatch(line)
	if m == nil {
		return xid{}, false
	}
	x := xid{pci: m[1], text: bound(line, maxEvidenceLine)}
	x.number, _ = strconv.Atoi(m[2]) // digits, few enough
	x.pid, _ = strconv.Atoi(m[3])    // none is 0
	return x, true
}

// fault says what is wrong with the machine by this error, "" if nothing is.
func (x xid) fault() string {
	what := machineXids[x.number]
	if what == "" || x.number == 154 && !asksForReset(x.text) {
		return ""
	}
	return fmt.Sprintf("Xid %d on GPU %s: %s", x.number, x.pci, what)
}

// asksForReset reads "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)".
func asksForReset(text string) bool {
	_, to, ok := strings.Cut(text, " to 0x")
	return ok && !strings.HasPrefix(to, "0 ") && to != "0"
}

// switchFault is a fatal error of an NVSwitch, through which all of a machine's GPUs talk.
var switchFault = regexp.MustCompile(`nvidia-nvswitch\d+: SXid \(PCI:[0-9A-Fa-f:.]+\): \d+, Fatal\b`)

// killedForMemory is the kernel's word that it killed a process for want of memory.
var killedForMemory = regexp.MustCompile(`(?:Out of memory|Memory cgroup out of memory): Killed process (\d+)`)

// diskTells are lines of a disk that fails. They are evidence, not proof: the disk
// may be another one than the job's.
var diskTells = regexp.MustCompile(`I/O error, dev |Remounting filesystem read-only|EXT4-fs error|XFS .*[Ss]hut|nvme.* (?:reset|timeout)|\[Hardware Error\]`)
