// A short signed history, and the messages of an honest coordinator about it. Tests change these
// messages to make the coordinator lie.
#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "atoll/v1/membership.pb.h"
#include "compression/base/status_macros.h"
#include "membership/history/header.h"
#include "tests/sim/sim_disk.h"
#include "tests/unit/daemon/replica/state/test_run.h"

namespace atolld {

struct ToldHistory {
  // Makes versions 1..last in "/r" of `files`.
  ToldHistory(Files& files, uint64_t last) : key(TestKey('k')) {
    run.history_key = key;
    OwnedReplica replica = *CreateReplica(files, "/r", run);
    run.CommitTo(*replica, last);
    genesis = replica->genesis();
    for (uint64_t v = 1; v <= last; ++v) headers.push_back(replica->ReadEntry(v)->header);
    next = run.NextHeader(*replica, run.Payload(last + 1));
    digest = replica->header_digest();
    seal = SealOf(*replica, key);
  }

  v1::Welcome Welcome(uint64_t version) const {
    v1::Welcome welcome;
    welcome.set_epoch(5);
    *welcome.mutable_spec() = genesis.spec();
    *welcome.mutable_genesis() = genesis;
    welcome.set_version(version);
    if (version > 0) *welcome.mutable_header() = headers[version - 1];
    welcome.set_failure_timeout_milliseconds(10000);
    return welcome;
  }

  // Returns another header of the same version, signed with `signer`.
  static v1::EntryHeader Forked(v1::EntryHeader header, const SigningKey& signer) {
    header.mutable_contributors(0)->set_tokens(header.contributors(0).tokens() + 1);
    header.set_signature(SignHeader(signer, header));
    return header;
  }

  // Returns a plan for the round after the last version: p1 and p2 contribute, p1 reduces.
  v1::Plan Plan() const {
    v1::Plan plan;
    plan.set_version(headers.size() + 1);
    plan.set_epoch(5);
    plan.set_revision(2);
    plan.set_parameters(run.elements);
    plan.set_deadline_milliseconds(5000);
    for (const char* peer : {"p1", "p2"}) {
      v1::PlanMember& member = *plan.add_contributors();
      member.set_peer(peer);
      member.set_address(std::string(peer) + ":1");
      member.set_weight_bits(0x3f800000);
      member.set_contribution_root(std::string(32, 'r'));
    }
    v1::Shard& shard = *plan.add_shards();
    shard.set_chunks(
        static_cast<uint32_t>((run.elements + run.chunk_elements - 1) / run.chunk_elements));
    shard.set_reducer("p1");
    shard.set_attempt(1);
    return plan;
  }

  static v1::Roster Roster() {
    v1::Roster roster;
    for (const char* peer : {"p", "p1", "p2"}) roster.add_members()->set_peer(peer);
    return roster;
  }

  const SigningKey key;
  TestRun run;
  v1::Genesis genesis;
  std::vector<v1::EntryHeader> headers;
  v1::EntryHeader next;
  Digest digest;  // the digest of the last header
  v1::Seal seal;
};

}  // namespace atolld
