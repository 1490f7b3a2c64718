package natsbus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/spotferry/spotferry/events"
)

// Names of the streams.
const (
	StreamJobs         = "JOBS"
	StreamMoney        = "MONEY"
	StreamOffers       = "OFFERS"
	StreamOfferHistory = "OFFERHIST"
	StreamLogs         = "LOGS"
	StreamSignals      = "SIGNAL"
	StreamDead         = "DLQ"
)

// durability is what a stream promises.
type durability int

const (
	truth  durability = iota // on disk before the acknowledgement, never deleted, refuses when full
	record                   // on disk before the acknowledgement, oldest dropped when full
	trail                    // on disk soon after the acknowledgement, oldest dropped when full
	newest                   // in memory, the newest of each subject only
)

// stream is one row of the table: all that is decided about a stream.
type stream struct {
	name       string
	durability durability
	subjects   []string
	maxBytes   int64
	maxAge     time.Duration
	republish  *jetstream.RePublish
}

const mib = 1 << 20

// table is every stream there is. The sizes are reservations: together they
// stay under DefaultMaxStore and DefaultMaxMemory, so that a full stream is a
// clean refusal and not a full disk.
func table() []stream {
	return []stream{
		{name: StreamJobs, durability: truth, subjects: []string{events.FilterJobs, events.FilterLeases, events.FilterOps}, maxBytes: 2048 * mib},
		{name: StreamMoney, durability: truth, subjects: []string{events.FilterMoney}, maxBytes: 1024 * mib},
		{name: StreamOffers, durability: newest, subjects: []string{events.FilterOffers, filterQuarantine}, maxBytes: 128 * mib,
			republish: &jetstream.RePublish{Source: "sf.v1.*.>", Destination: "sf.v1.hist.{{wildcard(1)}}.>"}},
		{name: StreamOfferHistory, durability: trail, subjects: []string{"sf.v1.hist.>"}, maxBytes: 1024 * mib},
		{name: StreamLogs, durability: trail, subjects: []string{events.SubjectLog + ">"}, maxBytes: 2048 * mib},
		{name: StreamSignals, durability: newest, subjects: []string{events.FilterSignals}, maxBytes: 128 * mib, maxAge: 24 * time.Hour},
		{name: StreamDead, durability: record, subjects: []string{events.SubjectDead + ">"}, maxBytes: 64 * mib},
	}
}

const filterQuarantine = "sf.v1.quarantine.>"

// dedupeWindow covers a publisher that retries after a long absence. Every
// message id in it is held in the server's memory.
const dedupeWindow = time.Hour

func (s stream) config(replicas int) jetstream.StreamConfig {
	c := jetstream.StreamConfig{
		Name: s.name, Subjects: s.subjects, Replicas: replicas,
		MaxBytes: s.maxBytes, MaxAge: s.maxAge, MaxMsgs: -1, MaxMsgsPerSubject: -1, MaxConsumers: -1,
		MaxMsgSize: maxPayload, Duplicates: dedupeWindow, RePublish: s.republish,
		Retention: jetstream.LimitsPolicy, Storage: jetstream.FileStorage, Discard: jetstream.DiscardOld,
	}
	switch s.durability {
	case truth:
		c.Discard, c.DenyDelete, c.DenyPurge = jetstream.DiscardNew, true, true
	case record:
	case trail:
		if replicas == 1 { // the broker has no asynchronous mode for replicated streams
			c.PersistMode = jetstream.AsyncPersistMode
		}
	case newest:
		c.Storage, c.MaxMsgsPerSubject = jetstream.MemoryStorage, 1
	}
	return c
}

// TruthStreams names the streams that carry what was decided and what was spent.
func TruthStreams() []string {
	var names []string
	for _, s := range table() {
		if s.durability == truth {
			names = append(names, s.name)
		}
	}
	return names
}

// ErrStreamMismatch is wrapped when a stream exists but promises something else than the table.
var ErrStreamMismatch = errors.New("stream is not as declared")

// Declare makes sure that every stream of the table is there and is what the
// table says. Of a stream that exists it changes one thing: subjects that a later
// version added are added. A stream with other settings is refused, naming
// stream and setting. Check the high-water marks before: a stream that has
// vanished would be made anew here.
func Declare(ctx context.Context, js jetstream.JetStream, replicas int) error {
	for _, s := range table() {
		if err := declare(ctx, js, s.config(replicas)); err != nil {
			return fmt.Errorf("declaring stream %s: %w", s.name, err)
		}
	}
	return nil
}

func declare(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig) error {
	have, err := js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		have, err = js.CreateStream(ctx, want)
	}
	if err != nil {
		return full(err)
	}
	was := have.CachedInfo().Config
	if grown(was.Subjects, want.Subjects) {
		was.Subjects = want.Subjects
		if have, err = js.UpdateStream(ctx, was); err != nil {
			return full(err)
		}
		was = have.CachedInfo().Config
	}
	return compare(was, want)
}

// grown says whether want is all of have, in its order, and more.
func grown(have, want []string) bool {
	return len(have) < len(want) && slices.Equal(have, want[:len(have)])
}

// compare names the first setting in which a stream is not as declared.
func compare(have, want jetstream.StreamConfig) error {
	for _, c := range []struct {
		setting    string
		have, want any
	}{
		{"subjects", strings.Join(have.Subjects, " "), strings.Join(want.Subjects, " ")},
		{"storage", have.Storage, want.Storage},
		{"retention", have.Retention, want.Retention},
		{"discard", have.Discard, want.Discard},
		{"replicas", have.Replicas, want.Replicas},
		{"max bytes", have.MaxBytes, want.MaxBytes},
		{"max age", have.MaxAge, want.MaxAge},
		{"max messages per subject", have.MaxMsgsPerSubject, want.MaxMsgsPerSubject},
		{"duplicate window", have.Duplicates, want.Duplicates},
		{"deny delete", have.DenyDelete, want.DenyDelete},
		{"deny purge", have.DenyPurge, want.DenyPurge},
		{"direct get", have.AllowDirect, want.AllowDirect},
		{"persist mode", have.PersistMode, want.PersistMode},
	} {
		if c.have != c.want {
			return fmt.Errorf("%w: %s is %v, want %v: change it with the program that made it, or use another bus",
				ErrStreamMismatch, c.setting, c.have, c.want)
		}
	}
	return nil
}

// streamOf returns the one stream that all filters belong to.
func streamOf(filters []string) (string, error) {
	found := ""
	for _, f := range filters {
		name := ""
		for _, s := range table() {
			for _, subject := range s.subjects {
				if strings.HasPrefix(f, strings.TrimSuffix(subject, ">")) {
					name = s.name
				}
			}
		}
		switch {
		case name == "":
			return "", fmt.Errorf("filter %q belongs to no stream", f)
		case found != "" && found != name:
			return "", fmt.Errorf("filters %q belong to two streams, %s and %s", filters, found, name)
		}
		found = name
	}
	if found == "" {
		return "", errors.New("a subscription needs at least one filter")
	}
	return found, nil
}

// Error codes of the broker that jetstream has no names for.
const (
	codeInsufficientResources = 10023
	codeStorageExceeded       = 10047
	codeStoreFailed           = 10077
	codeMemoryExceeded        = 10028
)

// full wraps ErrFull around what the broker answers when it has no room.
func full(err error) error {
	var api *jetstream.APIError
	if !errors.As(err, &api) {
		return err
	}
	switch api.ErrorCode {
	case codeInsufficientResources, codeStorageExceeded, codeStoreFailed, codeMemoryExceeded:
		return fmt.Errorf("%w: %s: give the bus more storage, or archive and remove its state", ErrFull, api.Description)
	}
	return err
}

// Declared says which stream of the table is missing, or nil.
func Declared(ctx context.Context, js jetstream.JetStream) error {
	for _, s := range table() {
		if _, err := js.Stream(ctx, s.name); err != nil {
			return fmt.Errorf("stream %s: %w", s.name, err)
		}
	}
	return nil
}
