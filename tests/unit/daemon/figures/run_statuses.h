// Makes statuses like those that a coordinator sends, for the tests of the code that displays them.
#pragma once

#include <cstdint>
#include <string>

#include "atoll/v1/admin.pb.h"

namespace atolld {

inline v1::RunStatus StatusAt(uint64_t epoch, uint64_t version, double elapsed_seconds) {
  v1::RunStatus status;
  status.set_epoch(epoch);
  status.set_version(version);
  status.set_elapsed_seconds(elapsed_seconds);
  status.set_phase("training");
  status.set_parameters(1000);
  status.mutable_spec()->set_run_id("test-run");
  status.mutable_spec()->set_rounds(10);
  status.mutable_spec()->mutable_inner()->set_steps(25);
  status.mutable_spec()->mutable_exchange()->set_codec("int8");
  return status;
}

inline void AddRound(v1::RunStatus* status, uint64_t version, double elapsed_seconds,
                     double train_loss) {
  v1::RoundRecord* round = status->add_rounds();
  round->set_version(version);
  round->set_elapsed_seconds(elapsed_seconds);
  round->set_train_loss(train_loss);
  round->set_contributors(2);
  round->set_tokens(1200);
}

inline void AddEvaluation(v1::RunStatus* status, uint64_t version, double loss) {
  v1::EvaluationRecord* evaluation = status->add_evaluations();
  evaluation->set_version(version);
  evaluation->set_loss(loss);
  evaluation->set_tokens(4096);
}

inline v1::PeerStatus* AddPeer(v1::RunStatus* status, const std::string& id, uint64_t bytes_sent,
                               double train_seconds, uint64_t rounds_contributed) {
  v1::PeerStatus* peer = status->add_peers();
  peer->mutable_member()->set_peer(id);
  peer->mutable_member()->set_state("live");
  peer->mutable_progress()->set_phase("training");
  peer->mutable_progress()->set_exchange_bytes_sent(bytes_sent);
  peer->mutable_progress()->set_train_seconds(train_seconds);
  peer->set_rounds_contributed(rounds_contributed);
  return peer;
}

}  // namespace atolld
