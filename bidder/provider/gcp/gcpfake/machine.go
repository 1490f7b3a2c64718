package gcpfake

import (
	"encoding/json"
	"regexp"
	"strconv"
)

// instance is a machine on the wire, as far as anybody looks at it.
type instance struct {
	Kind              string            `json:"kind"`
	ID                string            `json:"id,omitempty"`
	Name              string            `json:"name"`
	Zone              string            `json:"zone,omitempty"`
	MachineType       string            `json:"machineType"`
	Status            string            `json:"status,omitempty"`
	Created           string            `json:"creationTimestamp,omitempty"`
	Stopped           string            `json:"lastStopTimestamp,omitempty"`
	Labels            map[string]string `json:"labels,omitempty"`
	Metadata          metadata          `json:"metadata"`
	Scheduling        scheduling        `json:"scheduling"`
	Accelerators      []accelerator     `json:"guestAccelerators,omitempty"`
	Disks             []disk            `json:"disks,omitempty"`
	NetworkInterfaces []nic             `json:"networkInterfaces,omitempty"`
	ServiceAccounts   []json.RawMessage `json:"serviceAccounts,omitempty"`
}

type metadata struct {
	Items []item `json:"items"`
}

type item struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

type scheduling struct {
	Model   string `json:"provisioningModel,omitempty"`
	Action  string `json:"instanceTerminationAction,omitempty"`
	OnHost  string `json:"onHostMaintenance,omitempty"`
	Restart *bool  `json:"automaticRestart,omitempty"`
	MaxRun  *struct {
		Seconds string `json:"seconds"`
	} `json:"maxRunDuration,omitempty"`
}

type accelerator struct {
	Count int    `json:"acceleratorCount"`
	Type  string `json:"acceleratorType"`
}

type disk struct {
	Boot       bool       `json:"boot,omitempty"`
	AutoDelete bool       `json:"autoDelete,omitempty"`
	Params     diskParams `json:"initializeParams"`
}

type diskParams struct {
	Labels map[string]string `json:"labels,omitempty"`
}

type nic struct {
	AccessConfigs []json.RawMessage `json:"accessConfigs,omitempty"`
}

var (
	uuid     = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
	nameRule = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$`)
	labels   = regexp.MustCompile(`^[a-z0-9_-]{0,63}$`)
)

// wrong is what Google would not take of a body, "" if it would.
func (i instance) wrong() string {
	switch s := i.Scheduling; {
	case !nameRule.MatchString(i.Name):
		return "name"
	case len(i.Disks) == 0:
		return "disks"
	case len(i.NetworkInterfaces) == 0:
		return "networkInterfaces"
	case s.OnHost != "TERMINATE":
		return "scheduling.onHostMaintenance" // machines with GPUs cannot migrate
	case s.Model == "SPOT" && (s.Restart == nil || *s.Restart):
		return "scheduling.automaticRestart"
	case s.Action != "" && s.Model != "SPOT" && s.MaxRun == nil:
		return "scheduling.instanceTerminationAction"
	}
	for k, v := range i.Labels {
		if !labels.MatchString(k) || !labels.MatchString(v) {
			return "labels"
		}
	}
	for _, m := range i.Metadata.Items {
		if len(m.Value) > 256<<10 {
			return "metadata"
		}
	}
	return ""
}

// alsoNeeds are the permissions that a body needs besides.
func (i instance) alsoNeeds() []string {
	var out []string
	if len(i.NetworkInterfaces) > 0 && len(i.NetworkInterfaces[0].AccessConfigs) > 0 {
		out = append(out, "compute.subnetworks.useExternalIp")
	}
	for _, d := range i.Disks {
		if len(d.Params.Labels) > 0 {
			out = append(out, "compute.disks.setLabels")
		}
	}
	if len(i.ServiceAccounts) > 0 {
		out = append(out, "compute.instances.setServiceAccount", "iam.serviceAccounts.actAs")
	}
	return out
}

// offered is the instance type of the seller behind: with what is attached to it.
func (i instance) offered() string {
	out := base(i.MachineType)
	for _, a := range i.Accelerators {
		out += "+" + strconv.Itoa(a.Count) + "x" + short(base(a.Type))
	}
	return out
}
