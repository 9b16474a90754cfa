#include "daemon/exchange/mean_audit.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "membership/trust/audit.h"
#include "tests/sim/sim_ends.h"
#include "tests/unit/daemon/exchange/swarm.h"

namespace atolld {
namespace {

using Names = std::vector<std::string>;

// An exchange that is over, with its inputs kept.
struct AuditScene {
  explicit AuditScene(SwarmSettings settings = SwarmSettings(), bool relay = false)
      : swarm(settings) {
    const Names names = {"p1", "p2", "p3", "p4"};
    for (const std::string& name : names) swarm.Add(name);
    plan = swarm.MakePlan(names, {"p1", "p2"});
    plan.set_audit_commitment(std::string(32, 'c'));
    if (relay) Swarm::AddRelay(&plan, 0, "p3", {"p3", "p4"});
    for (const std::string& name : names) swarm.Give(name, plan);
    EXPECT_TRUE(swarm.world.RunUntil([&] { return swarm.Complete(names, 1); }, absl::Seconds(5)));
  }

  v1::Audit Order(const std::vector<uint32_t>& chunks) const {
    v1::Audit order;
    order.set_version(plan.version());
    order.set_epoch(plan.epoch());
    order.set_revision(1);
    for (const uint32_t chunk : chunks) order.add_chunks(chunk);
    order.set_deadline_milliseconds(2000);
    return order;
  }

  // What p2 finds of p1's chunks 0 and 3.
  v1::AuditReport Report() {
    v1::AuditReport report;
    swarm.peer("p2").node->exchange->Audit(
        Order({0, 3}), [&report](v1::AuditReport told) { report.MergeFrom(told); });
    EXPECT_TRUE(
        swarm.world.RunUntil([&] { return report.verdicts_size() >= 2; }, absl::Seconds(5)));
    return report;
  }

  Swarm swarm;
  v1::Plan plan;
};

// Would break: what is right would be called wrong, in some form of the wire or behind a relay.
TEST(Auditor, FindsRightWhatIsRight) {
  for (int form = 0; form < 6; ++form) {
    SCOPED_TRACE(form);
    SwarmSettings settings;
    settings.zstd = form == 1;
    settings.lanes = form == 2 ? 3 : 1;
    settings.codec = form == 3 ? "fp32" : "int8";
    settings.stochastic = form == 4;
    settings.upper_codec = form == 5 ? "fp16" : "";
    for (const bool relay : {false, true}) {
      AuditScene scene(settings, relay);
      const v1::AuditReport report = scene.Report();
      ASSERT_EQ(report.verdicts_size(), 2);
      for (const v1::ChunkVerdict& verdict : report.verdicts()) {
        EXPECT_EQ(verdict.outcome(), "right") << verdict.DebugString();
      }
      EXPECT_GT(scene.swarm.peer("p1").node->exchange->figures().kept_bytes, 0u);
    }
  }
}

// Answers Inputs in p1's place, from what p1 gives, changed.
struct Forger {
  Forger(AuditScene& given, std::function<void(size_t, v1::InputsPart*, SharedBytes*)> how)
      : scene(given), change(std::move(how)) {
    Swarm::Node* const node = scene.swarm.peer("p1").node;
    node->inputs = std::make_unique<InputsServer>(
        node->env.executor,
        [this, node](const v1::InputsRequest& request) -> absl::StatusOr<std::vector<Frame>> {
          absl::StatusOr<std::vector<Frame>> frames = node->exchange->Inputs(request);
          if (!frames.ok()) return frames;
          for (size_t i = 0; i < frames->size(); ++i) {
            v1::InputsPart part;
            EXPECT_TRUE(Unpack((*frames)[i], &part).ok());
            SharedBytes payload = (*frames)[i].payload.Joined();
            change(i, &part, &payload);
            (*frames)[i] = Pack(part, payload);
          }
          return frames;
        });
  }
  AuditScene& scene;
  const std::function<void(size_t, v1::InputsPart*, SharedBytes*)> change;
};

// Would break: a reducer could make its lie look right by inputs that nobody has signed.
TEST(Auditor, TakesNothingButWhatIsSigned) {
  for (int lie = 0; lie < 5; ++lie) {
    SCOPED_TRACE(lie);
    AuditScene scene;
    // p1's parts come by chunk, then by contributor: part 1 is p2's of chunk 0.
    Forger forger(scene, [&](size_t i, v1::InputsPart* part, SharedBytes* payload) {
      if (i != 1) return;
      const Contribution& others = *scene.swarm.peer("p3").contribution;
      if (lie == 0) *payload = others.chunks[0];
      if (lie == 1) {
        part->set_leaves(std::string(PageOf(others.leaves, 0)));
        part->set_path(others.pages.Path(0));
      }
      if (lie == 2) part->clear_leaves();
      if (lie == 3) part->set_contributor("p1");
      if (lie == 4) part->set_members(Swarm::Bitmap(scene.plan, {"p2"}));
    });
    const v1::AuditReport report = scene.Report();
    ASSERT_EQ(report.verdicts_size(), 2);
    EXPECT_EQ(report.verdicts(0).outcome(), "unknown") << report.DebugString();
    EXPECT_FALSE(report.verdicts(0).reason().empty());
  }
}

// Would break: in a run with more chunks than one page has leaves, audits would find nobody out, or
// call the honest liars; a proof that was made for another place would be taken.
TEST(Auditor, ProvesALeafOfAnyPage) {
  for (int lie = 0; lie < 5; ++lie) {
    SCOPED_TRACE(lie);
    SwarmSettings settings;
    settings.elements = settings.chunk_elements * (2 * kLeavesAPage + 3);  // three pages
    AuditScene scene(settings);
    const uint32_t last = scene.plan.shards(0).chunks() - 1;  // of p1's; in another page than 0
    ASSERT_GE(last, kLeavesAPage);
    // Of chunk 0 are parts 0 to 3, by contributor; part 5 is p2's of the last.
    Forger forger(scene, [&](size_t i, v1::InputsPart* part, SharedBytes* payload) {
      const Contribution& own = *scene.swarm.peer("p2").contribution;
      EXPECT_LE(part->leaves().size(), kLeavesAPage * kLeafBytes);
      if (i != 5) return;
      if (lie == 1) *payload = own.chunks[0];
      if (lie == 2) part->set_leaves(std::string(PageOf(own.leaves, 0)));
      if (lie == 3) part->set_path(own.pages.Path(0));
      if (lie == 4) {  // a chunk that it has signed for another place
        *payload = own.chunks[0];
        part->set_leaves(std::string(PageOf(own.leaves, 0)));
        part->set_path(own.pages.Path(0));
      }
    });
    v1::AuditReport report;
    scene.swarm.peer("p2").node->exchange->Audit(
        scene.Order({0, last}), [&report](v1::AuditReport told) { report.MergeFrom(told); });
    ASSERT_TRUE(
        scene.swarm.world.RunUntil([&] { return report.verdicts_size() >= 2; }, absl::Seconds(5)));
    EXPECT_EQ(report.verdicts(1).chunk(), last);
    EXPECT_EQ(report.verdicts(1).outcome(), lie == 0 ? "right" : "unknown") << lie;
  }
}

// Would break: an auditor with much to say would be cut off, for its words are longer than a
// Session takes.
TEST(Auditor, ReportsAndIsOrderedInMessagesOfBoundedLength) {
  v1::AuditReport all;
  all.set_version(7);
  for (uint32_t chunk = 0; chunk < 3000; ++chunk) {
    v1::ChunkVerdict* const verdict = all.add_verdicts();
    verdict->set_chunk(chunk);
    verdict->set_outcome("unknown");
    verdict->set_reason(std::string(2000, 'x'));
    verdict->set_computed_digest(std::string(32, 'c'));
    verdict->set_found_digest(std::string(32, 'f'));
  }
  const std::vector<v1::AuditReport> pages = InPages(all);
  ASSERT_EQ(pages.size(), 3u);
  uint32_t next = 0;
  for (const v1::AuditReport& page : pages) {
    EXPECT_EQ(page.version(), 7u);
    EXPECT_LE(page.ByteSizeLong(), size_t{1} << 20);
    for (const v1::ChunkVerdict& verdict : page.verdicts()) EXPECT_EQ(verdict.chunk(), next++);
  }
  EXPECT_EQ(next, 3000u);
  v1::Audit order;
  order.set_revision(3);
  order.set_deadline_milliseconds(5000);
  for (uint32_t chunk = 0; chunk < 150000; ++chunk) order.add_chunks((1u << 31) - 150000 + chunk);
  std::vector<uint32_t> chunks;
  for (const v1::Audit& page : InPages(order)) {
    EXPECT_EQ(page.revision(), 3u);
    EXPECT_EQ(page.deadline_milliseconds(), 5000u);
    EXPECT_LE(page.ByteSizeLong(), size_t{1} << 20);
    chunks.insert(chunks.end(), page.chunks().begin(), page.chunks().end());
  }
  EXPECT_EQ(chunks, std::vector<uint32_t>(order.chunks().begin(), order.chunks().end()));
}

// Would break: a reducer and a coordinator that lie together could show an auditor updates that
// nobody has signed. The auditor averages nothing itself, so it has not looked at any before.
TEST(Auditor, AsksForSignaturesItself) {
  for (const bool lie : {false, true}) {
    SCOPED_TRACE(lie);
    AuditScene scene;
    Swarm& swarm = scene.swarm;
    v1::Plan plan = scene.plan;
    for (const char* name : {"p1", "p2", "p3", "p4"}) Swarm::Sign(&plan, name, name, name);
    if (lie) Swarm::Sign(&plan, "p4", "p4", "p1");
    const ChunkForm form = {swarm.codec, false};
    ExchangeSettings settings;
    settings.run_id = kRun;
    settings.self = "p3";
    settings.grid = swarm.grid;
    settings.codec = settings.upper_codec = swarm.codec;
    const ExchangePlan made = ExchangePlan::Make(plan, swarm.grid).value();
    const SharedBytes mean =
        SplitPayload(swarm.grid, *swarm.codec, swarm.peer("p3").outcomes.at(1).payload).value()[0];
    std::map<uint32_t, ChunkMean> means;
    means[0] = {1, mean, Swarm::Bitmap(plan, {"p1", "p2", "p3", "p4"}), {}};
    v1::AuditReport report;
    Auditor auditor(swarm.peer("p3").node->env, settings,
                    {made, form, form, ReductionOf(made, settings, form, form)},
                    [&](v1::AuditReport told) { report.MergeFrom(told); });
    auditor.Take(scene.Order({0}), means);
    ASSERT_TRUE(
        swarm.world.RunUntil([&] { return report.verdicts_size() >= 1; }, absl::Seconds(5)));
    EXPECT_EQ(report.verdicts(0).outcome(), lie ? "unknown" : "right") << report.DebugString();
    if (lie) {
      EXPECT_NE(report.verdicts(0).reason().find("p4's update is not signed"), std::string::npos);
    }
  }
}

// Would break: a mean that does not follow from its inputs would be committed.
TEST(Auditor, FindsWrongWhatIsWrong) {
  AuditScene scene;
  // p2 has another mean of chunk 3 than the inputs make: as if it had been given it.
  const Swarm& swarm = scene.swarm;
  const std::vector<SharedBytes> chunks =
      SplitPayload(swarm.grid, *swarm.means.codec, swarm.peers.at("p2")->outcomes.at(1).payload)
          .value();
  std::vector<uint8_t> spoiled(chunks[3].span().begin(), chunks[3].span().end());
  spoiled.back() = spoiled.back() == 0 ? 1 : 0;
  const std::string all = Swarm::Bitmap(scene.plan, {"p1", "p2", "p3", "p4"});
  std::map<uint32_t, ChunkMean> means;
  means[0] = {1, chunks[0], all, {}};
  means[3] = {1, SharedBytes(spoiled), all, {}};
  ExchangeSettings settings;
  settings.run_id = kRun;
  settings.self = "p2";
  settings.grid = swarm.grid;
  const ChunkForm form = {swarm.codec, false};
  const ExchangePlan plan = ExchangePlan::Make(scene.plan, swarm.grid).value();
  const ChunkReduction reduce = [&](uint32_t chunk, bool partial, const std::vector<Piece>& pieces,
                                    std::optional<FreshBytes> out, Reduced* reduced) {
    return Reduce(form, form, {plan.version(), chunk, partial, {}}, swarm.grid.Elements(chunk),
                  {{1, 2, 3, 4}, {1, 1, 1, 1}, std::nullopt, nullptr}, pieces, std::move(out),
                  reduced);
  };
  v1::AuditReport report;
  Auditor auditor(scene.swarm.peer("p2").node->env, settings, {plan, form, form, reduce},
                  [&](v1::AuditReport told) { report.MergeFrom(told); });
  auditor.Take(scene.Order({0, 3}), means);
  ASSERT_TRUE(
      scene.swarm.world.RunUntil([&] { return report.verdicts_size() >= 2; }, absl::Seconds(5)));
  EXPECT_EQ(report.verdicts(0).outcome(), "right") << report.DebugString();
  EXPECT_EQ(report.verdicts(1).outcome(), "wrong");
  EXPECT_EQ(report.verdicts(1).computed_digest(), ToBytes(Sha256(chunks[3].span())));
  EXPECT_EQ(report.verdicts(1).found_digest(), ToBytes(Sha256(spoiled)));
}

// Would break: an auditor would wait for a reducer that is gone, or that says nothing.
TEST(Auditor, SaysByItsDeadlineWhatItCouldNotFindOut) {
  AuditScene scene;
  scene.swarm.Kill("p1");
  const v1::AuditReport report = scene.Report();
  ASSERT_EQ(report.verdicts_size(), 2);
  EXPECT_EQ(report.verdicts(0).outcome(), "unknown");
  EXPECT_EQ(report.verdicts(1).outcome(), "unknown");
}

// Would break: an order that follows another, as it does when a peer is lost or accounts differ,
// would leave the first unanswered, and the coordinator would wait for it for nothing.
TEST(Auditor, AnswersAnOrderBesideAnother) {
  AuditScene scene;
  Exchange& auditor = *scene.swarm.peer("p2").node->exchange;
  std::map<uint32_t, std::string> outcomes;
  int reports = 0;
  const auto tell = [&](const v1::AuditReport& told) {
    ++reports;
    for (const v1::ChunkVerdict& verdict : told.verdicts()) {
      outcomes[verdict.chunk()] = verdict.outcome();
    }
  };
  auditor.Audit(scene.Order({0}), tell);
  auditor.Audit(scene.Order({3}), tell);
  const std::map<uint32_t, std::string> right = {{0, "right"}, {3, "right"}};
  ASSERT_TRUE(scene.swarm.world.RunUntil([&] { return outcomes == right; }, absl::Seconds(1)));
  // Ordered again, as by a coordinator that was away: it is told at once, by whoever still knows.
  const int told = reports;
  scene.swarm.Kill("p1");
  auditor.Audit(scene.Order({3}), tell);
  ASSERT_TRUE(scene.swarm.world.RunUntil([&] { return reports > told; }, absl::Milliseconds(1)));
  EXPECT_EQ(outcomes, right);
}

// Would break: one server that says nothing would keep back what is known of the others' means.
TEST(Auditor, WaitsForNobodyWhoWasNotAsked) {
  AuditScene scene;
  uint32_t of_p2 = 0;
  for (const v1::Shard& shard : scene.plan.shards()) {
    if (shard.reducer() == "p2") of_p2 = shard.first_chunk();
  }
  std::vector<v1::ChunkVerdict> verdicts;
  scene.swarm.world.network().BlackHole("p3", "p1");
  scene.swarm.peer("p3").node->exchange->Audit(
      scene.Order({0, of_p2}), [&](const v1::AuditReport& told) {
        verdicts.insert(verdicts.end(), told.verdicts().begin(), told.verdicts().end());
      });
  ASSERT_TRUE(
      scene.swarm.world.RunUntil([&] { return !verdicts.empty(); }, absl::Milliseconds(500)));
  EXPECT_EQ(verdicts.front().chunk(), of_p2);
  EXPECT_EQ(verdicts.front().outcome(), "right");
  ASSERT_TRUE(scene.swarm.world.RunUntil([&] { return verdicts.size() == 2; }, absl::Seconds(5)));
  EXPECT_EQ(verdicts.back().outcome(), "unknown");
}

// Would break: a relay of several reducers would take one that audits them all for a flooder, and
// nothing could be said of them.
TEST(Auditor, AsksEachServerOneThingAfterTheOther) {
  Swarm swarm(SwarmSettings{});
  const Names names = {"p1", "p2", "p3", "p4", "p5"};
  for (const std::string& name : names) {
    swarm.Add(name);
    swarm.world.network().SetIdentity(name, {"sim", Role::kPeer, name, ""});
  }
  v1::Plan plan = swarm.MakePlan(names, {"p1", "p2", "p3", "p4"});
  plan.set_audit_commitment(std::string(32, 'c'));
  v1::Audit order;
  order.set_version(plan.version());
  order.set_epoch(plan.epoch());
  order.set_revision(1);
  for (int shard = 0; shard < 4; ++shard) {
    if (shard < 3) Swarm::AddRelay(&plan, shard, "p4", {"p4", "p5"});
    order.add_chunks(plan.shards(shard).first_chunk());
  }
  order.set_deadline_milliseconds(2000);
  for (const std::string& name : names) swarm.Give(name, plan);
  ASSERT_TRUE(swarm.world.RunUntil([&] { return swarm.Complete(names, 1); }, absl::Seconds(5)));
  v1::AuditReport report;
  swarm.peer("p5").node->exchange->Audit(
      order, [&report](v1::AuditReport told) { report.MergeFrom(told); });
  ASSERT_TRUE(swarm.world.RunUntil([&] { return report.verdicts_size() >= 4; }, absl::Seconds(5)));
  ASSERT_EQ(report.verdicts_size(), 4);
  for (const v1::ChunkVerdict& verdict : report.verdicts()) {
    EXPECT_EQ(verdict.outcome(), "right") << verdict.DebugString();
  }
}

// Would break: without audits inputs would take memory for nothing.
TEST(Auditor, NothingIsKeptWithoutACommitment) {
  Swarm swarm(SwarmSettings{});
  for (const char* name : {"p1", "p2"}) swarm.Add(name);
  const v1::Plan plan = swarm.MakePlan({"p1", "p2"}, {"p1"});
  swarm.Give("p1", plan);
  swarm.Give("p2", plan);
  ASSERT_TRUE(swarm.world.RunUntil(
      [&] {
        return swarm.Complete({"p1", "p2"}, 1);
      },
      absl::Seconds(5)));
  EXPECT_EQ(swarm.peer("p1").node->exchange->figures().kept_bytes, 0u);
  v1::InputsRequest request;
  request.set_run_id(kRun);
  request.set_version(plan.version());
  request.set_epoch(plan.epoch());
  request.add_chunks(0);
  EXPECT_TRUE(absl::IsNotFound(swarm.peer("p1").node->exchange->Inputs(request).status()));
  request.set_epoch(1);
  EXPECT_TRUE(
      absl::IsFailedPrecondition(swarm.peer("p1").node->exchange->Inputs(request).status()));
}

// A server of inputs, and callers with certificates.
struct Served {
  Served() : world(1) {
    const Env env = world.AddProcess("self").env();
    inputs = std::make_unique<InputsServer>(
        env.executor, [](const v1::InputsRequest&) -> absl::StatusOr<std::vector<Frame>> {
          return std::vector<Frame>{Frame{"part", SharedBytes()}};
        });
    listener = env.transport
                   .Listen("self:1",
                           [this](const std::string&, std::unique_ptr<Call> call) {
                             inputs->Accept(std::move(call));
                           })
                   .value();
  }

  // A call that asks nothing.
  std::unique_ptr<Reader> Dial(const std::string& caller) {
    if (added.insert(caller).second) {
      world.AddProcess(caller);
      world.network().SetIdentity(caller, {"sim", Role::kPeer, caller, ""});
    }
    auto call = std::make_unique<Reader>();
    call->Start(world.process(caller).env().transport.Dial("self:1", kInputsMethod,
                                                           absl::InfiniteDuration()));
    Run();
    return call;
  }
  bool Answers(Reader& call) {
    call.call->Write(Pack(v1::InputsRequest()));
    Run();
    return call.frames.size() == 1 && call.closed.size() == 1 && call.closed[0].ok();
  }
  static bool Refused(const Reader& call) {
    return call.closed.size() == 1 && absl::IsResourceExhausted(call.closed[0]);
  }
  void Run() { world.RunFor(absl::Milliseconds(200)); }

  SimWorld world;
  std::set<std::string> added;
  std::unique_ptr<InputsServer> inputs;
  std::unique_ptr<Listener> listener;
};

// Would break: one member that asks nothing would keep all auditors from finding out what was
// averaged here.
TEST(InputsServer, OneCallerLeavesRoomForOthers) {
  Served s;
  const auto first = s.Dial("x");
  auto second = s.Dial("x");
  EXPECT_TRUE(Served::Refused(*s.Dial("x")));
  EXPECT_TRUE(s.Answers(*s.Dial("auditor")));
  EXPECT_TRUE(first->closed.empty());
  // What is over counts no more.
  second->call.reset();
  s.Run();
  EXPECT_TRUE(s.Answers(*s.Dial("x")));
}

// Would break: whoever can dial could make a peer hold answers without end.
TEST(InputsServer, FewAreServedAtOnceAndTheSilentAreLetGo) {
  Served s;
  std::vector<std::unique_ptr<Reader>> silent;
  for (int i = 0; i < 8; ++i) silent.push_back(s.Dial(absl::StrCat("x", i)));
  EXPECT_TRUE(Served::Refused(*s.Dial("auditor")));
  s.world.RunFor(absl::Minutes(2));
  EXPECT_TRUE(s.Answers(*s.Dial("auditor")));
}

}  // namespace
}  // namespace atolld
