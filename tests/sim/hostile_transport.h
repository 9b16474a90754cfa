// HostileTransport: makes an honest peer lie, by changing what the peer says and hears, as a
// modified program would.
//
// A lying reducer changes a code of the first mean of its first shard in every round, in the same
// way for all peers, and votes for the payload that results. An equivocator changes it for one peer
// only. A false accuser calls every mean that it audits wrong. A hiding reducer lies and gives its
// inputs to no peer. These need a codec in which any code can be the last byte, without zstd.
//
// Other hostile peers lie about themselves or about which peers can be reached. A reducer accuser
// says for every plan that it cannot reach any of the other serving peers, and averages its own
// update alone, as if all others were lost. An address thief claims another peer's address. An
// epoch liar ends its session at every plan, and returns with a later epoch than it was told. A
// version liar says that it holds the run's last version, but never shows that version's header. An
// end liar reports a digest that belongs to no state, and answers its share of every evaluation
// with a value that is not a loss. A hoarder makes version 0 and gives it to no peer, and takes
// shares of evaluations that it never answers; a mute peer does not make version 0 either.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/strings/string_view.h"
#include "atoll/v1/membership.pb.h"
#include "daemon/env/env.h"

namespace atolld {

enum class Hostility {
  kNone,
  kLyingReducer,
  kEquivocator,
  kFalseAccuser,
  kHidingReducer,
  kReducerAccuser,
  kAddressThief,
  kEpochLiar,
  kVersionLiar,
  kEndLiar,
  kHoarder,
  kMute
};
// Returns true if the peer withholds data for which others wait.
inline bool KeepsToItself(Hostility hostility) { return hostility >= Hostility::kHoarder; }
// Returns true if the peer makes false claims, rather than lying about what it averages or audits.
inline bool ClaimsFalsely(Hostility hostility) { return hostility >= Hostility::kReducerAccuser; }
absl::string_view HostilityName(Hostility hostility);

class HostileTransport final : public Transport {
 public:
  // `under` must outlive this object. `steals` is the address that a thief claims.
  HostileTransport(Transport& under, std::string self, Hostility hostility,
                   std::string steals = "");
  ~HostileTransport() override;

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                   Acceptor acceptor) override;
  std::unique_ptr<Call> Dial(const std::string& address, const std::string& method,
                             absl::Duration deadline) override;

  // lies() returns the digests of the payloads that this peer has changed and voted for.
  // accusations() returns the number of means that it has called wrong.
  const std::set<std::string>& lies() const;
  uint64_t accusations() const;
  // Returns the number of changed means, votes for them, accusations and false claims.
  uint64_t acts() const;
  // From now on the transport passes everything on unchanged. A hoarder or a mute peer still
  // withholds its data, because the run must be able to end without it.
  void Reform();

  struct State;

 private:
  Transport& under_;
  const std::shared_ptr<State> state_;
};

}  // namespace atolld
