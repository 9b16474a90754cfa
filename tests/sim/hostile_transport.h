// HostileTransport: what makes of an honest peer one that lies: it changes what the peer says and
// hears, as a changed program would.
//
// A lying reducer changes a code of the first mean of its first shard in every round, for
// everybody in the same way, and votes for the payload that comes of it. An equivocating one
// changes it for one peer alone. A false accuser calls every mean wrong that it audits. A hiding
// reducer lies, and gives its inputs to nobody. For codecs whose last byte is any code, without
// zstd.
//
// Others lie about themselves or about who can be reached. An accuser of reducers says of every
// plan that it can reach none of the others that serve, and averages as if all others were lost:
// its own update alone. A thief names another's address as its own. One that lies about epochs ends
// its session at every plan, and comes back with a later epoch than it was told. One that lies
// about versions says that it holds the run's last one, and tells no header of it. One that lies
// about the end tells a digest of no state, and answers for everybody's share of an evaluation with
// what is no loss. A hoarder makes version 0 and gives it to nobody, and takes shares of
// evaluations that it never answers; a mute one does not make version 0 either.
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
// It keeps to itself what others wait for.
inline bool KeepsToItself(Hostility hostility) { return hostility >= Hostility::kHoarder; }
// It lies about what is, not about what it averages or audits.
inline bool ClaimsFalsely(Hostility hostility) { return hostility >= Hostility::kReducerAccuser; }
absl::string_view HostilityName(Hostility hostility);

class HostileTransport final : public Transport {
 public:
  // `under` outlives this. `steals`: the address that a thief names.
  HostileTransport(Transport& under, std::string self, Hostility hostility,
                   std::string steals = "");
  ~HostileTransport() override;

  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                   Acceptor acceptor) override;
  std::unique_ptr<Call> Dial(const std::string& address, const std::string& method,
                             absl::Duration deadline) override;

  // Digests of the payloads that it has changed and voted for; what it has called wrong.
  const std::set<std::string>& lies() const;
  uint64_t accusations() const;
  // Means that it changed, votes that it gave for them, accusations and false claims.
  uint64_t acts() const;
  // From now on it passes everything on as it is; but what it keeps to itself it keeps: a run ends
  // beside it.
  void Reform();

  struct State;

 private:
  Transport& under_;
  const std::shared_ptr<State> state_;
};

}  // namespace atolld
