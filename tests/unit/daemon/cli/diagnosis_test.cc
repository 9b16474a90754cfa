// What a run's status says of what slows it.
#include "daemon/cli/diagnosis.h"

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/config/run_record.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/daemon/config/config_file.h"
#include "tests/unit/daemon/figures/run_statuses.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

// Four peers, ten seconds of training and half a second of exchange a round.
v1::RunStatus HealthyRun() {
  v1::RunStatus status = StatusAt(1, 8, 84);
  status.set_parameters(100000000);
  status.mutable_spec()->mutable_inner()->set_steps(50);
  for (uint64_t version = 1; version <= 8; ++version) {
    AddRound(&status, version, 10.5 * static_cast<double>(version), 3);
    v1::RoundRecord* round = status.mutable_rounds(status.rounds_size() - 1);
    round->set_train_seconds(10);
    round->set_exchange_seconds(0.5);
    round->set_plan("weighted");
  }
  for (const char* name : {"a", "b", "c", "d"}) {
    v1::PeerStatus* peer = AddPeer(&status, name, 1000, 80, 8);
    peer->set_role("peer");
    peer->set_mean_share(0.25);
    peer->set_ready_seconds(10);
    peer->set_up_bytes_per_second(10e6);
    peer->set_down_bytes_per_second(10e6);
    peer->mutable_progress()->set_loss(3);
    peer->mutable_progress()->set_clock_seconds(1.8e9);
    peer->mutable_progress()->set_disk_free_bytes(uint64_t{100} << 30);
  }
  status.mutable_noise()->set_tokens(5000);
  status.mutable_noise()->set_round_tokens(4800);
  return status;
}

void SetTimes(v1::RunStatus* status, double train, double exchange, double audit = 0) {
  double elapsed = 0;
  for (v1::RoundRecord& round : *status->mutable_rounds()) {
    elapsed += train + exchange + audit;
    round.set_train_seconds(train);
    round.set_exchange_seconds(exchange);
    round.set_audit_seconds(audit);
    round.set_elapsed_seconds(elapsed);
  }
  for (v1::PeerStatus& peer : *status->mutable_peers()) peer.set_ready_seconds(train);
}

struct PlantedCause {
  const char* name;
  std::function<void(v1::RunStatus*)> plant;
  const char* cause;
  const char* peer;
  const char* figure;  // that stands in its words
  const char* key;
  const char* value;
};

std::vector<PlantedCause> PlantedInTimes() {
  return {
      {"slow line",
       [](v1::RunStatus* run) {
         SetTimes(run, 10, 8);
         run->mutable_peers(2)->set_up_bytes_per_second(1e6);
       },
       "link", "c", "8 Mbit/s up where the others' carry 80 Mbit/s", "[exchange] codec", "int4"},
      {"a line that its owner has capped",
       [](v1::RunStatus* run) {
         SetTimes(run, 10, 8);
         run->mutable_peers(2)->set_down_bytes_per_second(1e6);
         run->mutable_peers(2)->set_down_cap_bytes_per_second(1.05e6);
       },
       "limits", "c", "which is what its owner allows", "[peer] down_rate", "27Mbit"},
      {"slow link",
       [](v1::RunStatus* run) {
         SetTimes(run, 10, 8);
         v1::LinkStatus* link = run->add_links();
         link->set_from("eu");
         link->set_to("us");
         link->set_predicted_bytes_per_second(1e6);
       },
       "link", "", "from eu to us carries 8 Mbit/s", "[exchange] plan", "regions"},
      {"codec",
       [](v1::RunStatus* run) {
         SetTimes(run, 10, 8);
         run->mutable_spec()->mutable_exchange()->set_codec("fp32");
       },
       "codec", "", "44 % of a round's time", "[exchange] codec", "int8"},
      {"H",
       [](v1::RunStatus* run) {
         SetTimes(run, 2, 2);
         run->mutable_spec()->mutable_inner()->set_steps(10);
       },
       "inner_steps", "", "10 inner steps take 2 s, and the exchange after them 2 s: 50 %",
       "[inner] steps", "90"},
      {"straggler",
       [](v1::RunStatus* run) {
         SetTimes(run, 10, 0.5);
         double elapsed = 0;
         for (v1::RoundRecord& round : *run->mutable_rounds()) {
           round.set_elapsed_seconds(elapsed += 20.5);
         }
         run->mutable_peers(1)->set_ready_seconds(20);
       },
       "straggler", "b", "after 20 s where the others were after 10 s", "[inner] pace", "auto"},
      {"a straggler that comes too late every time",
       [](v1::RunStatus* run) {
         run->mutable_peers(1)->set_ready_seconds(40);
         run->mutable_peers(1)->set_mean_share(0);
       },
       "straggler", "b", "too late for the round", "[inner] pace", "auto"},
      {"audits", [](v1::RunStatus* run) { SetTimes(run, 10, 0.5, 3); }, "audits", "",
       "audits of means take 3 s", "[exchange] audit_share", "0"},
  };
}

std::vector<PlantedCause> PlantedInPeers() {
  return {
      {"more peers than the noise scale bears",
       [](v1::RunStatus* run) { run->mutable_noise()->set_tokens(600); }, "noise", "",
       "4,800 tokens, 8 times the gradient noise scale of 600", "[run] peers", "1"},
      {"disk",
       [](v1::RunStatus* run) {
         run->mutable_peers(3)->mutable_progress()->set_disk_free_bytes(1 << 30);
       },
       "disk", "d", "nearly full: 1.1 GB are free", "[peer] keep_bytes", "2.4 GB"},
      {"slow disk",
       [](v1::RunStatus* run) {
         run->mutable_peers(1)->mutable_progress()->set_slow_sync_seconds(4.25);
       },
       "disk", "b", "slow: an fsync took 4.2 s", "", ""},
      {"the coordinator's disk",
       [](v1::RunStatus* run) {
         run->set_phase("waiting");
         run->set_reason("/run/coordinator.db: database or disk is full");
       },
       "disk", "", "disk is full", "", ""},
      {"clock", [](v1::RunStatus* run) { run->mutable_peers(0)->set_clock_offset_seconds(-900); },
       "clock", "a", "15 minutes behind the coordinator's", "", ""},
      {"a port that nobody reaches",
       [](v1::RunStatus* run) {
         for (const char* from : {"", "b"}) {
           v1::ReachDoubt* doubt = run->add_doubts();
           doubt->set_from(from);
           doubt->set_to("c");
           doubt->set_seconds(12);
           doubt->set_reason("no answer");
         }
       },
       "reach", "c", "the coordinator, b cannot reach c for 12 s: no answer", "[peer] advertise",
       "none"},
      {"bad data",
       [](v1::RunStatus* run) { run->mutable_peers(1)->mutable_progress()->set_loss(9); }, "data",
       "b", "9 where the others have 3", "", ""},
      {"not finite", [](v1::RunStatus* run) { run->mutable_peers(1)->set_data_refused(4); }, "data",
       "b", "4 updates that were not finite", "", ""},
      {"worker",
       [](v1::RunStatus* run) {
         run->mutable_peers(2)->set_worker_failures(3);
         run->mutable_peers(2)->set_why("its worker does not train: out of memory");
       },
       "worker", "c", "failed 3 times in a row: its worker does not train: out of memory", "", ""},
      {"owner",
       [](v1::RunStatus* run) {
         run->mutable_peers(2)->mutable_progress()->set_held_back("on battery");
       },
       "limits", "c", "on battery", "[machine]", ""},
      {"left out",
       [](v1::RunStatus* run) {
         run->mutable_peers(2)->set_offence("left out for 3 rounds: an update 9 times as long");
       },
       "updates", "c", "9 times as long", "", ""},
      {"waiting",
       [](v1::RunStatus* run) {
         run->set_phase("waiting");
         run->set_reason("2 of 3 peers are here");
       },
       "waiting", "", "2 of 3 peers are here", "", ""},
  };
}

std::vector<PlantedCause> PlantedInTensors() {
  return {
      {"tensors that one peer does not train",
       [](v1::RunStatus* run) {
         run->mutable_peers(1)->mutable_progress()->set_still_tensors("1 of 3 did not move: t2");
       },
       "tensors", "b", "the training of b leaves tensors as they are: 1 of 3 did not move: t2", "",
       ""},
      {"tensors that nobody trains",
       [](v1::RunStatus* run) {
         for (v1::PeerStatus& peer : *run->mutable_peers()) {
           peer.mutable_progress()->set_still_tensors("1 of 3 did not move: t2");
         }
       },
       "tensors", "", "more leaves tensors as they are: 1 of 3 did not move: t2", "", ""},
  };
}

void ExpectFoundFirst(const std::vector<PlantedCause>& all) {
  for (const PlantedCause& planted : all) {
    v1::RunStatus run = HealthyRun();
    planted.plant(&run);
    const std::vector<RunFinding> findings = Diagnose(run);
    ASSERT_FALSE(findings.empty()) << planted.name;
    const RunFinding& first = findings.front();
    EXPECT_EQ(first.cause, planted.cause) << planted.name;
    EXPECT_EQ(first.peer, planted.peer) << planted.name;
    EXPECT_THAT(first.what, HasSubstr(planted.figure)) << planted.name;
    EXPECT_EQ(first.key, planted.key) << planted.name;
    EXPECT_EQ(first.value, planted.value) << planted.name;
    EXPECT_FALSE(first.advice.empty()) << planted.name;
    for (const RunFinding& finding : findings) EXPECT_LE(finding.share, first.share);
  }
}

// Would break: an operator is sent after something else than what slows the run.
TEST(Diagnosis, NamesWhatWasPlantedFirst) {
  ExpectFoundFirst(PlantedInTimes());
  ExpectFoundFirst(PlantedInPeers());
  ExpectFoundFirst(PlantedInTensors());
}

// Would break: a run in which all is well is changed for nothing; or what came with the first
// rounds, or one join, is taken for how the run goes.
TEST(Diagnosis, SaysThatARunIsHealthy) {
  EXPECT_TRUE(Diagnose(HealthyRun()).empty());
  EXPECT_TRUE(DiagnosisJson(HealthyRun())["healthy"].get<bool>());
  EXPECT_EQ(DiagnosisText(HealthyRun()).back(),
            "healthy: nothing costs a twentieth of the time or more");
  v1::RunStatus outlier = HealthyRun();
  outlier.mutable_rounds(6)->set_exchange_seconds(60);
  outlier.mutable_peers(0)->set_up_bytes_per_second(0.5e6);  // which nobody waits for
  outlier.mutable_peers(1)->set_clock_offset_seconds(5);
  outlier.mutable_peers(2)->set_ready_seconds(12);
  EXPECT_TRUE(Diagnose(outlier).empty());
  v1::RunStatus early = HealthyRun();
  SetTimes(&early, 1, 9);
  early.mutable_rounds()->DeleteSubrange(2, 6);
  EXPECT_TRUE(Diagnose(early).empty());
  EXPECT_FALSE(DiagnosisJson(early)["healthy"].get<bool>());
  EXPECT_THAT(DiagnosisText(early).back(), HasSubstr("too early to say: 2 rounds"));
  v1::RunStatus sealed = early;
  sealed.mutable_seal();
  EXPECT_THAT(DiagnosisText(sealed).back(), HasSubstr("is sealed"));
  // Broken: a run before its first round would have rounds of 0 s.
  early.clear_rounds();
  for (const char* median :
       {"round_seconds", "train_seconds", "exchange_seconds", "audit_seconds"}) {
    EXPECT_TRUE(DiagnosisJson(early)[median].is_null()) << median;
    EXPECT_TRUE(DiagnosisJson(HealthyRun())[median].is_number()) << median;
  }
}

// Would break: one slow exchange is blamed on its line, its codec and its steps at once, each for
// all of it.
TEST(Diagnosis, NoSecondOfAnExchangeCountsTwice) {
  v1::RunStatus run = HealthyRun();
  SetTimes(&run, 2, 18);
  run.mutable_spec()->mutable_exchange()->set_codec("fp32");
  run.mutable_peers(0)->set_up_bytes_per_second(2.5e6);
  const std::vector<RunFinding> findings = Diagnose(run);
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].cause, "link");
  EXPECT_NEAR(findings[0].seconds, 13.5, 1e-9);  // three quarters of 18
  EXPECT_EQ(findings[1].cause, "codec");
  EXPECT_NEAR(findings[1].seconds, 0.75 * 4.5, 1e-9);
  EXPECT_NEAR(findings[1].share, 0.75 * 4.5 / 20, 1e-9);
}

// Would break: more inner steps than a run bears are suggested.
TEST(Diagnosis, StepsStayWithinWhatLearnsAsWell) {
  v1::RunStatus run = HealthyRun();
  SetTimes(&run, 1, 9);
  ASSERT_EQ(Diagnose(run).front().cause, "inner_steps");
  EXPECT_EQ(Diagnose(run).front().value, "500");
  EXPECT_THAT(Diagnose(run).front().advice, HasSubstr("a smaller codec"));
}

// Would break: scripts that read the findings, or people whom a line leaves with no figure.
TEST(Diagnosis, IsToldInWordsAndAsJson) {
  v1::RunStatus run = HealthyRun();
  run.mutable_peers(1)->mutable_progress()->set_loss(9);
  run.mutable_peers(0)->set_clock_offset_seconds(900);
  const nlohmann::ordered_json json = DiagnosisJson(run);
  EXPECT_FALSE(json["healthy"].get<bool>());
  EXPECT_EQ(json["rounds"], 8);
  EXPECT_EQ(json["findings"].size(), 2u);
  EXPECT_EQ(json["findings"][0]["cause"], "data");
  EXPECT_EQ(json["findings"][0]["share"], 0.25);
  EXPECT_EQ(json["findings"][1]["cause"], "clock");
  const std::vector<std::string> lines = DiagnosisText(run);
  EXPECT_EQ(lines[0],
            "run test-run at version 8: a round takes 10.5 s (training 10 s, exchange 0.5 s, audit "
            "0 s), by the medians of the last 8 rounds");
  EXPECT_THAT(lines[2], HasSubstr("1. the loss of b is 9 where the others have 3"));
  EXPECT_THAT(lines[2], HasSubstr("(costs 25 %, 2.62 s a round)"));
  EXPECT_THAT(lines[5], HasSubstr("2. the clock of a is 15 minutes ahead"));
}

// Gives the run the record of a config, and rounds of all of its peers.
void TakeRecord(const std::string& text, v1::RunStatus* run) {
  ConfigFile file;
  absl::StatusOr<Config> config = file.Load(text);
  ASSERT_TRUE(config.ok()) << config.status() << "\n" << text;
  config->run.id = "test-run";
  *run->mutable_spec() = MakeRunSpec(*config);
  for (v1::RoundRecord& round : *run->mutable_rounds()) {
    round.set_contributors(config->run.peers);
  }
}

// Would break: every run with default settings is called unhealthy; or the advice rests on another
// number of peers, or on another model, than the run has.
TEST(Diagnosis, DefaultOuterStepsAreNoFinding) {
  for (const char* mode : {"sync", "streaming", "eager", "delayed", "async"}) {
    for (const char* optimizer : {"adamw", "muon"}) {
      for (const int peers : {1, 4, 16}) {
        for (const int steps : {5, 25, 500}) {
          v1::RunStatus run = HealthyRun();
          run.set_parameters(1000000);
          TakeRecord(
              absl::StrCat("[run]\npeers = ", peers, "\n[inner]\nsteps = ", steps,
                           "\noptimizer = \"", optimizer, "\"\n[mode]\nkind = \"", mode, "\"\n"),
              &run);
          EXPECT_TRUE(Diagnose(run).empty()) << mode << " " << optimizer << " " << peers << " "
                                             << steps << ": " << DiagnosisJson(run).dump();
        }
      }
    }
  }
}

// Would break: a run that loses by its outer step is called healthy; or such a finding comes before
// one that costs time, or shows a cost of 0 seconds.
TEST(Diagnosis, ACostlyOuterStepComesLastAndCostsNoTime) {
  v1::RunStatus run = HealthyRun();
  TakeRecord(
      "[run]\npeers = 8\n[inner]\nsteps = 30\n[outer]\nlearning_rate = 0.4\nmomentum = 0.99\n",
      &run);
  run.mutable_peers(0)->set_clock_offset_seconds(900);
  const std::vector<RunFinding> findings = Diagnose(run);
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].cause, "clock");
  EXPECT_EQ(findings[1].cause, "outer");
  EXPECT_EQ(findings[1].seconds, 0);
  EXPECT_EQ(findings[1].key, "[outer] learning_rate");
  EXPECT_EQ(findings[1].value, "0.8");
  EXPECT_THAT(findings[1].what, HasSubstr("as far as 0.8 / 0.9 (8 peers, 30 steps, adamw;"));
  EXPECT_THAT(findings[1].advice, HasSubstr("and [outer] momentum = 0.9; "));
  EXPECT_THAT(findings[1].advice, HasSubstr("`atoll run branch`"));
  const nlohmann::ordered_json json = DiagnosisJson(run);
  EXPECT_TRUE(json["findings"][0].contains("seconds"));
  EXPECT_FALSE(json["findings"][1].contains("seconds"));
  EXPECT_FALSE(json["findings"][1].contains("share"));
  const std::string text = absl::StrJoin(DiagnosisText(run), "\n");
  EXPECT_THAT(text, HasSubstr("\n2. the outer rates 0.4 / 0.99 move the parameters"));
  EXPECT_THAT(text, HasSubstr("\n   [outer] learning_rate = 0.8\n   and [outer] momentum = 0.9; "));
  EXPECT_EQ(text.find("costs 0"), std::string::npos);
}

// Would break: rates are compared with the table's for peers that are not in the rounds, or before
// it is known how many are.
TEST(Diagnosis, AnOuterStepIsJudgedByThePeersOfItsRounds) {
  // The default for 16 peers.
  v1::RunStatus run = HealthyRun();
  TakeRecord("[run]\npeers = 16\n[inner]\nsteps = 30\noptimizer = \"muon\"\n", &run);
  EXPECT_TRUE(Diagnose(run).empty());
  for (v1::RoundRecord& round : *run.mutable_rounds()) round.set_contributors(1);
  ASSERT_EQ(Diagnose(run).size(), 1u);
  EXPECT_THAT(Diagnose(run)[0].what, HasSubstr("the rates for another number of peers"));
  for (v1::RoundRecord& round : *run.mutable_rounds()) round.set_parties(16);  // of one host
  EXPECT_TRUE(Diagnose(run).empty());
  for (v1::RoundRecord& round : *run.mutable_rounds()) round.set_parties(0);
  run.mutable_rounds()->DeleteSubrange(2, 6);
  EXPECT_TRUE(Diagnose(run).empty());
}

// Would break: a run is blamed for the default rates that it got before "auto" chose streaming.
TEST(Diagnosis, RatesFromBeforeAutoChoseTheModeAreNoFinding) {
  v1::RunStatus run = HealthyRun();
  TakeRecord("[run]\npeers = 16\n[inner]\nsteps = 30\n", &run);  // 1.0, streaming has 0.4
  run.mutable_spec()->mutable_mode()->set_kind("streaming");
  EXPECT_EQ(Diagnose(run).size(), 1u);
  run.set_mode_because("the plan says so");
  EXPECT_TRUE(Diagnose(run).empty());
}

}  // namespace
}  // namespace atolld
