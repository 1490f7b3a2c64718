// Package trainer is a small but real fine-tune: the program that Spotferry's
// demonstration, its examples and its failover tests run on the machines they
// rent. It trains a character-level language model (embedding, one hidden
// layer, softmax) by Adam, on one core, and writes checkpoints laid out as the
// Hugging Face Trainer lays them out.
//
// Its laws:
//
//   - The weights after step n are a function of the seed, the text and the
//     model's size, and of nothing else. How often the trainer was killed, which
//     of its checkpoints it resumed from, how fast it was paced and when it
//     saved leave no trace. All arithmetic is in a fixed order with every
//     rounding written out, so the same holds from one machine to another.
//   - It never starts over on its own. A resume directory that is torn, foreign
//     or unreadable ends the program with code 3.
//   - A save is as careless as the original's: plain writes in a fixed order,
//     trainer_state.json last, no rename. Whoever ships checkpoints has to know
//     a whole one from a torn one.
//
// It knows its surroundings only through the SPOTFERRY_ variables and signals
// that any trainer gets. It does not talk to the agent, and it takes no part in
// deciding where it runs.
//
// # Digest
//
// The digest in progress and evidence is the SHA-256, in hex, of the weights as
// little-endian float32, tensor after tensor in the order embedding.weight,
// hidden.weight, hidden.bias, output.weight, output.bias. That is the data
// section of model.safetensors, byte for byte, so DigestFile of a checkpoint
// equals the digest reported at its step; so does
//
//	tail -c +$((9 + header length)) model.safetensors | sha256sum
package trainer
