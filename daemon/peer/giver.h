// Giver: how a peer that nobody can dial gives to others all the same: it dials them and lets them
// ask.
//
// It keeps one call for entries and one for a snapshot open to each peer that it is to offer itself
// to; a call that has ended, used or broken, is dialled anew after a pause. What is asked over it
// the peer's Donor answers. Loop thread.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "atoll/v1/membership.pb.h"
#include "daemon/env/env.h"
#include "daemon/replica/transfer/transfer.h"

namespace atolld {

// Addresses of those that `self`, a member without an address that holds a state, offers itself to:
// eight at most of those that others can dial, in roster order after itself. To each of them four
// offer themselves at most, likewise.
std::vector<std::string> GivesTo(const v1::Roster& roster, const std::string& self);

class Giver {
 public:
  // `donor` outlives it.
  Giver(Env env, std::string self, Donor& donor);
  ~Giver();  // ends the calls that wait

  void SetTargets(const std::vector<std::string>& addresses);

 private:
  using Key = std::pair<std::string, std::string>;  // address, method

  void Dial(const Key& key);
  void OnGone(const Key& key, uint64_t number);

  const Env env_;
  const std::string self_;
  Donor& donor_;

  uint64_t dialled_ = 0;
  std::map<Key, uint64_t> calls_;  // wanted; the number of the one that is open, 0: none is
  std::set<Key> pausing_;
  CallbackGuard guard_;
};

}  // namespace atolld
