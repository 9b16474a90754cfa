#include "daemon/figures/status_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/unit/daemon/figures/run_statuses.h"

namespace atolld {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

// Broken: people would read a wrong pass over the data, or a place beyond its end.
TEST(StatusJsonTest, ThePlaceInTheDataIsCountedByPasses) {
  v1::DataStatus data;
  data.set_spent(12350);
  data.set_held(900);
  EXPECT_EQ(DataText(data), "spent 12,350; held 900; returned 0");  // no worker has told yet
  data.set_samples_a_pass(36096);
  EXPECT_EQ(DataText(data), "pass 1, 34.2 % (spent 12,350; held 900; returned 0)");
  data.set_samples_a_pass(10000);
  EXPECT_EQ(DataText(data), "pass 2, 23.5 % (spent 12,350; held 900; returned 0)");
  data.set_spent(20000);
  data.set_returned(7);
  EXPECT_EQ(DataText(data), "pass 3, 0.0 % (spent 20,000; held 900; returned 7)");
}

// Broken: a script cannot parse what a stranger has said, or a terminal obeys it.
TEST(StatusJsonTest, IsValidAndPlainWhateverBytesAStringHolds) {
  for (int i = 0; i < 65536; i += 7) {
    const std::string bytes = {'a', static_cast<char>(i >> 8), static_cast<char>(i & 0xff), 'z'};
    const nlohmann::ordered_json json = {{"name", bytes}, {bytes, 1}};
    for (const std::string& text : {JsonText(json), JsonLine(json)}) {
      const nlohmann::json parsed = nlohmann::json::parse(text, nullptr, false);
      ASSERT_FALSE(parsed.is_discarded()) << i;
      for (const char c : text) ASSERT_TRUE(c == '\n' || (c >= 0x20 && c < 0x7f)) << i;
    }
  }
  EXPECT_EQ("caf\xc3\xa9", nlohmann::json::parse(JsonText("caf\xc3\xa9")).get<std::string>());
}

// Broken: a script cannot parse the figures of a run that has diverged, since JSON has no NaN, or
// takes them for figures that are not known.
TEST(StatusJsonTest, WhatIsNoNumberIsAWord) {
  v1::RunStatus status;
  status.add_evaluations()->set_loss(NAN);
  status.add_rounds()->set_train_loss(INFINITY);
  status.add_peers()->mutable_progress()->set_loss(-NAN);
  const std::string text = JsonText(RunStatusJson(status));
  const nlohmann::json parsed = nlohmann::json::parse(text, nullptr, false);
  ASSERT_FALSE(parsed.is_discarded()) << text;
  EXPECT_EQ(parsed["evaluations"][0]["loss"], "NaN") << text;
  EXPECT_EQ(parsed["rounds"][0]["train_loss"], "Infinity") << text;
  EXPECT_EQ(parsed["peers"][0]["progress"]["loss"], "NaN") << text;
}

// Broken: `run show --from` would show the oldest round first, or another round's loss.
TEST(StatusJsonTest, ListsRoundsTheNewestFirst) {
  v1::RunStatus status;
  for (const uint64_t version : {8, 9}) {
    v1::RoundRecord* round = status.add_rounds();
    round->set_version(version);
    round->set_train_loss(static_cast<double>(version) / 4);
    round->set_tokens(1000 * version);
    round->set_contributors(3);
  }
  status.add_evaluations()->set_version(8);
  status.mutable_evaluations(0)->set_loss(1.75);
  status.set_rounds_recorded(9);
  const std::vector<std::string> lines = RoundsText(status);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_THAT(lines[1], HasSubstr("9         2.2500                    9,000"));
  EXPECT_THAT(lines[2], HasSubstr("8         2.0000           1.7500   8,000"));
  EXPECT_EQ(RunStatusJson(status)["rounds_recorded"], 9);
}

// Broken: nobody would see that a run is paused or stopping, for how long its coordinator runs, or
// why a peer is not there.
TEST(StatusJsonTest, ShowsWhatOperatorsAskedFor) {
  v1::RunStatus status = StatusAt(3, 7, 60);
  status.set_phase("paused");
  status.set_paused(true);
  status.set_reason("an operator has paused it: backup");
  status.set_epoch_seconds(724);
  v1::PeerStatus* peer = AddPeer(&status, "p1", 0, 0, 1);
  peer->mutable_member()->set_state("evicted");
  peer->mutable_member()->set_region("eu-west");
  peer->set_why("it lies");
  const std::vector<std::string> lines = RunStatusText(status);
  EXPECT_THAT(lines, Contains(HasSubstr("paused: an operator has paused it: backup")));
  EXPECT_THAT(lines, Contains(HasSubstr("3, for 12:04")));
  EXPECT_THAT(lines, Contains(HasSubstr("evicted")));
  EXPECT_THAT(lines, Contains(HasSubstr("it lies")));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("stopping"))));
  const nlohmann::ordered_json json = RunStatusJson(status);
  EXPECT_EQ(json["paused"], true);
  EXPECT_EQ(json["stopping"], false);
  EXPECT_EQ(json["epoch_seconds"], 724.0);
  EXPECT_EQ(json["data"]["spent"], 0);
  EXPECT_EQ(json["peers"][0]["why"], "it lies");
  EXPECT_EQ(json["peers"][0]["member"]["region"], "eu-west");
  EXPECT_TRUE(json["peers"][0]["member"]["offer"].is_null());
  status.set_stopping(true);
  EXPECT_THAT(RunStatusText(status), Contains(HasSubstr("it ends at the newest version")));
}

// Broken: an operator would add peers that no more help, or be told a figure that nobody knows.
TEST(StatusJsonTest, TheNoiseScaleSaysWhetherMorePeersHelp) {
  v1::RunStatus status = StatusAt(1, 7, 60);
  AddRound(&status, 7, 60, 2.5);
  EXPECT_EQ(NoiseText(status.noise()), "unknown: the coordinator does not tell it");
  status.mutable_noise()->set_unknown("codec topk changes updates' lengths");
  EXPECT_EQ(NoiseText(status.noise()), "unknown: codec topk changes updates' lengths");
  EXPECT_TRUE(RunStatusJson(status)["noise"]["tokens"].is_null());
  EXPECT_TRUE(RunStatusJson(status)["rounds"][0]["noise_scale"].is_null());
  status.mutable_noise()->clear_unknown();
  status.mutable_noise()->set_tokens(84731);
  status.mutable_noise()->set_rounds(7);
  status.mutable_noise()->set_round_tokens(57600);
  status.mutable_rounds(0)->set_squared_gradient(-0.5);
  status.mutable_rounds(0)->set_gradient_noise(90000);
  status.mutable_rounds(0)->set_noise_scale(84731);
  EXPECT_EQ(NoiseText(status.noise()),
            "85,000 tokens a round; these peers make 57,600: more peers still help");
  EXPECT_THAT(RunStatusText(status), Contains(HasSubstr("gradient noise scale  85,000 tokens")));
  const auto json = RunStatusJson(status);
  EXPECT_EQ(json["noise"]["tokens"], 84731.0);
  EXPECT_EQ(json["noise"]["rounds"], 7);
  EXPECT_EQ(json["noise"]["round_tokens"], 57600);
  EXPECT_EQ(json["rounds"][0]["squared_gradient"], -0.5);
  EXPECT_EQ(json["rounds"][0]["gradient_noise"], 90000.0);
  EXPECT_EQ(json["rounds"][0]["noise_scale"], 84731.0);
  status.mutable_noise()->set_tokens(57599);
  EXPECT_THAT(NoiseText(status.noise()), HasSubstr("more peers help less and less"));
}

// Broken: nobody would see how long workers wait, or why a run has the mode that it has.
TEST(StatusJsonTest, ShowsModeAndUtilisation) {
  v1::RunStatus status = StatusAt(1, 7, 60);
  AddRound(&status, 7, 60, 2.5);
  v1::PeerStatus* const peer = AddPeer(&status, "p1", 0, 0, 1);
  EXPECT_THAT(RunStatusText(status), Contains(HasSubstr("sync")));
  EXPECT_THAT(RunStatusText(status), Contains(HasSubstr("not known")));
  EXPECT_EQ(RunStatusJson(status)["spec"]["mode"]["kind"], "sync");
  EXPECT_TRUE(RunStatusJson(status)["rounds"][0]["utilisation"].is_null());
  EXPECT_TRUE(PeerJson(*peer)["utilisation"].is_null());
  v1::ModeSpec* const mode = status.mutable_spec()->mutable_mode();
  mode->set_kind("streaming");
  mode->set_fragments(4);
  mode->set_overlap_steps(2);
  status.set_mode_because("the plan says so");
  status.add_doubts()->set_to("p2");
  v1::Utilisation* const used = status.mutable_rounds(0)->mutable_utilisation();
  used->set_train_seconds(9);
  used->set_waited_seconds(1);
  used->set_hidden_bytes(3000000);
  used->set_waited_bytes(1000000);
  *peer->mutable_utilisation() = *used;
  EXPECT_THAT(RunStatusText(status),
              Contains(HasSubstr("streaming, 4 fragments, overlap 2: the plan says so")));
  const std::string text =
      "90.0 % of the time trained, 1.0 s waited; 3.0 MB of 4.0 MB exchanged while training";
  EXPECT_THAT(RunStatusText(status), Contains(HasSubstr(text)));
  EXPECT_THAT(PeerText(*peer), Contains(HasSubstr(text)));
  EXPECT_THAT(RoundsText(status), Contains(HasSubstr("  90.0 %  ")));
  const auto json = RunStatusJson(status);
  EXPECT_EQ(json["mode_because"], "the plan says so");
  EXPECT_EQ(json["doubts"][0]["to"], "p2");
  EXPECT_EQ(json["doubts"][0]["from"], nullptr) << "the coordinator's own dial";
  EXPECT_EQ(json["spec"]["mode"]["fragments"], 4);
  EXPECT_EQ(json["rounds"][0]["utilisation"]["compute_utilization"], 0.9);
  EXPECT_EQ(json["peers"][0]["utilisation"]["waited_bytes"], 1000000);
}

// Broken: a machine whose packets do not come through is nowhere, once the others have begun.
TEST(StatusJsonTest, NamesThoseWhoHaveNeverCome) {
  v1::RunStatus status = StatusAt(1, 7, 60);
  EXPECT_TRUE(RunStatusJson(status)["never_come"].empty());
  EXPECT_THAT(RunStatusText(status), Not(Contains(HasSubstr("never come"))));
  status.add_never_come("p8");
  status.add_never_come("p9");
  EXPECT_EQ(RunStatusJson(status)["never_come"][1], "p9");
  EXPECT_THAT(RunStatusText(status), Contains(HasSubstr(absl::StrCat("p9: ", kNeverCome))));
}

// Broken: an operator would not see which peer's death an expert does not outlive.
TEST(StatusJsonTest, ShowsWhoOwnsWhichExperts) {
  v1::RunStatus status = StatusAt(1, 7, 60);
  EXPECT_TRUE(OwnersText(status).empty());
  EXPECT_TRUE(RunStatusJson(status)["experts"].empty());
  EXPECT_EQ(RunStatusJson(status)["spec"]["experts"], nullptr);
  status.mutable_spec()->mutable_experts()->set_owners(2);
  status.mutable_spec()->mutable_experts()->add_tensors("*.experts.#.*");
  for (uint32_t number = 0; number < 6; ++number) {
    v1::ExpertStatus* const expert = status.add_experts();
    expert->set_number(number);
    if (number == 5) continue;
    expert->add_owners("p1");
    if (number != 3) expert->add_owners("p2");
  }
  EXPECT_EQ(OwnersText(status),
            (std::vector<std::string>{"p1 owns 0-4", "p2 owns 0-2, 4",
                                      "expert 5 has no owner: it does not move until there is one",
                                      "expert 3 has 1 owner of 2: it waits for another peer"}));
  const auto json = RunStatusJson(status);
  EXPECT_EQ(json["experts"][3]["number"], 3);
  EXPECT_EQ(json["experts"][4]["owners"].size(), 2u);
  EXPECT_EQ(json["experts"][4]["owners"][1], "p2");
  EXPECT_EQ(json["spec"]["experts"]["owners"], 2);
  EXPECT_EQ(json["spec"]["experts"]["tensors"][0], "*.experts.#.*");
  EXPECT_THAT(RunStatusText(status), Contains(HasSubstr("p1 owns 0-4")));
  status.mutable_experts(4)->mutable_owners()->RemoveLast();
  EXPECT_THAT(OwnersText(status), Contains("experts 3-4 have 1 owner of 2: they wait for another "
                                           "peer"));
}

// Broken: nobody could see which machine trains how many ranks, or that some are trained by nobody.
TEST(StatusJsonTest, ShowsWhoTrainsWhichRanks) {
  v1::RunStatus status = StatusAt(1, 7, 60);
  EXPECT_EQ(RunStatusJson(status)["lora_ranks"], nullptr);
  status.mutable_spec()->mutable_model()->set_lora_rank(16);
  status.mutable_spec()->mutable_model()->set_lora_slice(4);
  status.mutable_spec()->mutable_experts()->add_tensors("*.slice#*");
  for (uint32_t number = 0; number < 4; ++number) {
    v1::ExpertStatus* const slice = status.add_experts();
    slice->set_number(number);
    if (number < 1) slice->add_owners("p1");
    if (number < 3) slice->add_owners("p2");
  }
  EXPECT_EQ(RanksText(status),
            (std::vector<std::string>{"p1 trains ranks 1-4", "p2 trains ranks 1-12",
                                      "nobody trains ranks 13-16: they do not move until somebody "
                                      "does"}));
  EXPECT_THAT(RunStatusText(status), Contains(HasSubstr("p2 trains ranks 1-12")));
  const auto json = RunStatusJson(status);
  EXPECT_EQ(json["lora_ranks"].dump(), R"({"p1":4,"p2":12})");
  EXPECT_TRUE(json["experts"].empty());
  EXPECT_EQ(json["spec"]["model"]["lora_slice"], 4);
}

// Broken: nobody could tell from a log which updates an expert's mean was taken over.
TEST(StatusJsonTest, AHeaderIsShownWithItsSets) {
  v1::EntryHeader header;
  header.set_version(1);
  for (const char* owned : {"\x03", "\x01", ""}) header.add_contributors()->set_owned(owned);
  header.mutable_records()->add_sets()->set_contributors("\x07");
  header.mutable_records()->add_sets()->set_contributors("\x01");
  for (const uint32_t first : {0u, 5u}) {
    v1::ShardRecord* const shard = header.mutable_records()->add_shards();
    shard->set_first_chunk(first);
    for (const uint32_t set : {0u, 1u}) {
      v1::ChunkRun* const run = shard->add_runs();
      run->set_chunks(2 + set);
      run->set_set(set);
    }
  }
  const auto json = HeaderJson(header);
  EXPECT_EQ(json["contributors"][0]["owned"].dump(), "[0,1]");
  EXPECT_EQ(json["contributors"][1]["owned"].dump(), "[0]");
  EXPECT_EQ(json["contributors"][2].count("owned"), 0u);
  EXPECT_EQ(json["sets"].dump(), "[[0,1,2],[0]]");
  EXPECT_EQ(json["runs"][1].dump(), R"({"first_chunk":2,"chunks":3,"set":1})");
  EXPECT_EQ(json["runs"][2]["first_chunk"], 5);
}

// Broken: `atoll peer show` would hide what a peer can give to others.
TEST(StatusJsonTest, APeerIsShownWithWhatItOffers) {
  v1::RunStatus status = StatusAt(1, 7, 60);
  v1::PeerStatus* peer = AddPeer(&status, "p1", 0, 0, 1);
  EXPECT_THAT(PeerText(*peer), Not(Contains(HasSubstr("offers"))));
  v1::Offer* offer = peer->mutable_member()->mutable_offer();
  EXPECT_THAT(PeerText(*peer), Contains(HasSubstr("no entries, no snapshot")));
  offer->set_oldest_entry(5);
  offer->set_has_snapshot(true);
  offer->set_snapshot_version(20);
  EXPECT_THAT(PeerText(*peer), Contains(HasSubstr("entries from 5, the snapshot of version 20")));
  EXPECT_EQ(PeerJson(*peer)["member"]["offer"]["snapshot_version"], 20);
}

// Broken: an operator would not see whose updates do harm, and why they are left out.
TEST(StatusJsonTest, APeerIsShownWithItsOffences) {
  v1::RunStatus status = StatusAt(1, 7, 60);
  v1::PeerStatus* peer = AddPeer(&status, "p1", 0, 0, 1);
  EXPECT_THAT(PeerText(*peer), Contains(HasSubstr("none")));
  peer->set_updates_refused(2);
  peer->set_updates_clipped(31);
  peer->set_offence("an update 12 times as long as usual");
  EXPECT_THAT(PeerText(*peer), Contains(HasSubstr("31")));
  EXPECT_THAT(PeerText(*peer), Contains(HasSubstr("12 times as long")));
  EXPECT_THAT(PeersText(status), Contains(HasSubstr("12 times as long")));
  EXPECT_EQ(PeerJson(*peer)["updates_refused"], 2);
  EXPECT_EQ(PeerJson(*peer)["updates_clipped"], 31);
  EXPECT_EQ(PeerJson(*peer)["offence"], "an update 12 times as long as usual");
}

// Broken: nobody would see which of the peers trains nothing.
TEST(StatusJsonTest, EachPeerIsShownWithItsRole) {
  v1::RunStatus status = StatusAt(1, 7, 60);
  AddPeer(&status, "p1", 0, 0, 1)->set_role("peer");
  v1::PeerStatus* aggregator = AddPeer(&status, "p2", 0, 0, 0);
  aggregator->set_role("aggregator");
  const std::vector<std::string> lines = PeersText(status);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_THAT(lines[0], HasSubstr("peer  role "));
  EXPECT_THAT(lines[1], HasSubstr("p1    peer  "));
  EXPECT_THAT(lines[2], HasSubstr("p2    aggregator  live"));
  EXPECT_THAT(PeerText(*aggregator), Contains(HasSubstr("aggregator")));
  EXPECT_EQ(PeersJson(status)[1]["member"]["role"], "aggregator");
}

TEST(StatusJsonTest, WhatIsNotKnownOfAnAdoptedRoundIsNull) {
  // Broken: scripts would take a loss of 0 for one that was measured.
  v1::RunStatus status = StatusAt(1, 1, 10);
  AddRound(&status, 1, 10, 0);
  AddRound(&status, 2, 20, 2.5);
  const auto json = RunStatusJson(status);
  for (const char* key : {"train_loss", "train_seconds", "exchange_seconds"}) {
    EXPECT_TRUE(json["rounds"][0][key].is_null()) << key;
  }
  EXPECT_EQ(json["rounds"][1]["train_loss"], 2.5);
}

// Would break: an operator who looks at a peer does not see what its owner allows, that its clock
// is off, or what lies between two regions.
TEST(StatusJsonTest, ShowsLinksCapsClocksAndTheEnd) {
  v1::RunStatus status = StatusAt(1, 3, 30);
  status.set_unix_seconds(1800000000);
  status.set_predicted_end_unix_seconds(1800000090);
  v1::LinkStatus* link = status.add_links();
  link->set_from("eu");
  link->set_to("us");
  link->set_predicted_bytes_per_second(2.5e6);
  link->set_seconds(0.04);
  v1::PeerStatus* peer = AddPeer(&status, "a", 0, 0, 0);
  peer->set_up_bytes_per_second(1.5e8);
  peer->set_up_cap_bytes_per_second(2.5e6);
  peer->set_clock_offset_seconds(-90);
  peer->set_data_refused(2);
  peer->set_mean_share(0.25);
  peer->set_ready_seconds(8.5);
  peer->mutable_progress()->set_clock_seconds(1.8e9);
  peer->mutable_progress()->set_held_back("on battery");
  peer->mutable_progress()->set_disk_free_bytes(123);
  peer->mutable_progress()->set_still_tensors("1 of 3 tensors did not move: t2");
  const std::string shown = absl::StrJoin(PeerText(*peer), "\n");
  for (const char* line :
       {"line                      1200 Mbit/s up, - down",
        "its owner's limits        20 Mbit/s up, - down", "held back                 on battery",
        "1:30 behind the coordinator's", "updates of bad data       2", "25.0 %", "8.50 s"}) {
    EXPECT_THAT(shown, HasSubstr(line));
  }
  const nlohmann::ordered_json json = PeerJson(*peer);
  EXPECT_EQ(json["up_cap_bytes_per_second"], 2.5e6);
  EXPECT_EQ(json["down_cap_bytes_per_second"], nullptr);
  EXPECT_EQ(json["clock_offset_seconds"], -90);
  EXPECT_EQ(json["progress"]["held_back"], "on battery");
  EXPECT_EQ(json["progress"]["still_tensors"], "1 of 3 tensors did not move: t2");
  EXPECT_EQ(json["progress"]["disk_free_bytes"], 123);
  EXPECT_EQ(json["progress"]["memory_available_bytes"], nullptr);
  const std::string run = absl::StrJoin(RunStatusText(status), "\n");
  EXPECT_THAT(run, HasSubstr("in about 1:30, at 2027-01-15 08:01 UTC"));
  EXPECT_THAT(run, HasSubstr("eu    us   20 Mbit/s        -    40 ms"));
  EXPECT_EQ(RunStatusJson(status)["links"][0]["measured_bytes_per_second"], nullptr);
  EXPECT_EQ(RunStatusJson(status)["predicted_end_unix_seconds"], 1800000090);
  status.clear_predicted_end_unix_seconds();
  EXPECT_EQ(RunStatusJson(status)["predicted_end_unix_seconds"], nullptr);
}

}  // namespace
}  // namespace atolld
