// Values of the configuration that the code knows by name.
#pragma once

namespace atolld {

// The peer.advertise of a peer that nobody can dial, behind NAT say: it has no address and dials.
inline constexpr char kDialsOutOnly[] = "none";
inline constexpr char kAggregatorRoleName[] = "aggregator";  // peer.role: has no worker

// The model kind that is no model: its worker only takes time (worker/stub).
inline constexpr char kStubKind[] = "stub";

// The model kind of which nothing is known here: a worker of the user's own has it.
inline constexpr char kExternalKind[] = "external";
// The model kind that is a file: its forward(batch...) gives the loss.
inline constexpr char kTorchScriptKind[] = "torchscript";

}  // namespace atolld
