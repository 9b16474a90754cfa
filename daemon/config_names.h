// Values of the configuration that the code knows by name.
#pragma once

namespace atolld {

// The peer.advertise of a peer that nobody can dial, behind NAT say: it has no address and dials.
inline constexpr char kDialsOutOnly[] = "none";
inline constexpr char kAggregatorRoleName[] = "aggregator";  // peer.role: has no worker

// The model kind that is no model: its worker only takes time (worker/stub).
inline constexpr char kStubKind[] = "stub";

}  // namespace atolld
