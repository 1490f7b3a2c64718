package events

// The ops aggregate of an organisation holds what operations decided for all of
// its jobs: which sellers and pools nothing is bought from, and whether anything is bought at all.

// OpsHeld says that nothing more is bought from a seller, or from one of its pools.
// Machines that are there already are not touched.
type OpsHeld struct {
	Seller string `json:"seller"`
	Pool   *Pool  `json:"pool,omitempty"` // nil: the whole seller
	Reason string `json:"reason"`
	By     string `json:"by"`
}

// OpsReleased takes such a hold back.
type OpsReleased struct {
	Seller string `json:"seller"`
	Pool   *Pool  `json:"pool,omitempty"`
	Reason string `json:"reason"`
	By     string `json:"by"`
}

// OpsFrozen says that no new commitment is made anywhere. What runs goes on while it is paid.
type OpsFrozen struct {
	Reason string `json:"reason"`
	By     string `json:"by"`
}

// OpsUnfrozen ends a freeze.
type OpsUnfrozen struct {
	Reason string `json:"reason"`
	By     string `json:"by"`
}

// OpsReapRequested asks for the end of machines that carry our mark and belong to
// no lease that wants them. It is answered by lease events; Instances names what was found.
type OpsReapRequested struct {
	Instances []InstanceID `json:"instances"`
	Reason    string       `json:"reason"`
	By        string       `json:"by"`
}
