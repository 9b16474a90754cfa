// A run moved from one store to another, between two of SQLite's.
#include "daemon/coordinator/run_move.h"

#include <sqlite3.h>

#include <memory>
#include <optional>
#include <string>

#include "daemon/coordinator/sqlite_store.h"
#include "daemon/env/posix_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/daemon/coordinator/stored_updates.h"
#include "tests/unit/daemon/env/temporary_directory.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<TableStore> OpenIn(const TemporaryDirectory& directory) {
  PosixFiles files;
  auto store = SqliteStore::Open(files, directory.path());
  EXPECT_TRUE(store.ok()) << store.status();
  return *std::move(store);
}

MoveOrder OrderOf(const std::string& move) {
  MoveOrder order;
  order.move = move;
  order.now = absl::FromUnixSeconds(1800000000);
  return order;
}

// All that it holds, marked or not, with its headers byte by byte.
std::string Everything(TableStore& store) {
  auto run = store.LoadTables();
  EXPECT_TRUE(run.ok()) << run.status();
  run->headers = *store.ReadHeaders(0, 1000);
  std::string text = TextOf(*run);
  for (const auto& header : run->headers) text += header.SerializeAsString();
  return text;
}

// Dies at one of its writes, as its process might: before the write, or right after it.
class DyingStore final : public TableStore {
 public:
  struct Life {
    int writes_left;
    bool writes_last;  // the one at which it dies
  };
  DyingStore(TableStore& store, Life& life) : store_(store), life_(life) {}

  absl::Status Apply(const RunUpdate& update) override { return store_.Apply(update); }
  absl::StatusOr<std::vector<v1::EntryHeader>> ReadHeaders(uint64_t first,
                                                           uint32_t limit) override {
    return store_.ReadHeaders(first, limit);
  }
  std::string where() const override { return store_.where(); }
  absl::Status ReadTable(absl::string_view table, const TakeColumns& take) override {
    return store_.ReadTable(table, take);
  }
  absl::StatusOr<std::optional<v1::StoreMark>> ReadMark() override { return store_.ReadMark(); }
  absl::Status WriteMark(const v1::StoreMark* mark) override {
    return Write([&] { return store_.WriteMark(mark); });
  }
  absl::Status WriteRows(const std::vector<RowChange>& changes) override {
    return Write([&] { return store_.WriteRows(changes); });
  }
  absl::Status RemoveRows() override {
    return Write([&] { return store_.RemoveRows(); });
  }

 private:
  template <typename Do>
  absl::Status Write(const Do& write) {
    if (life_.writes_left < 0) return absl::AbortedError("dead");
    if (life_.writes_left-- > 0) return write();
    if (life_.writes_last) {
      EXPECT_TRUE(write().ok());
    }
    return absl::AbortedError("killed");
  }

  TableStore& store_;
  Life& life_;
};

// Would break: something of a run is lost on its way, or a coordinator works with both stores.
TEST(RunMove, TakesEverythingAndLeavesAMark) {
  const TemporaryDirectory one, other;
  const auto from = OpenIn(one), to = OpenIn(other);
  FillWithRun(*from, 300);
  const std::string before = Everything(*from);
  MoveOrder order = OrderOf("m1");
  std::string told;
  order.on_progress = [&](absl::string_view doing, uint64_t, uint64_t) {
    told.append(doing.data(), doing.size()).append("\n");
  };
  const auto report = MoveRun(*from, *to, order);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->run_id, "long");
  EXPECT_EQ(report->version, 300u);
  EXPECT_EQ(report->headers, 300u);
  EXPECT_GT(report->rows, 600u);
  EXPECT_THAT(told, HasSubstr("checking " + from->where()));
  EXPECT_EQ(Everything(*to), before);
  EXPECT_EQ(TextOf(Loaded(*to)), TextOf(*[&] {
              auto run = from->LoadTables();
              run->headers = *from->ReadHeaders(0, 1000);
              return run;
            }()));
  const absl::Status gone = from->Load().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(gone)) << gone;
  EXPECT_THAT(std::string(gone.message()), HasSubstr("run long has moved to " + to->where() +
                                                     " (2027-01-15 08:00 UTC, at "
                                                     "version 300)"));
  // Twice is once.
  EXPECT_THAT(std::string(MoveRun(*from, *to, OrderOf("m2")).status().message()),
              HasSubstr("has moved to"));
  EXPECT_EQ(Everything(*to), before);
}

// Would break: a move that is cut short leaves a run in two stores, or in none.
TEST(RunMove, KilledAtAnyWriteItIsEndedByTheNextCall) {
  int deaths = 0;
  for (const bool writes_last : {false, true}) {
    for (int writes = 0;; ++writes) {
      const TemporaryDirectory one, other;
      const auto from = OpenIn(one), to = OpenIn(other);
      FillWithRun(*from, 3);
      const std::string before = Everything(*from);
      DyingStore::Life life{writes, writes_last};
      DyingStore dying_from(*from, life), dying_to(*to, life);
      if (MoveRun(dying_from, dying_to, OrderOf("m1")).ok()) break;
      ++deaths;
      SCOPED_TRACE(testing::Message() << writes << " writes, then " << writes_last);
      // What a coordinator would find by now.
      const auto left = from->Load(), arrived = to->Load();
      const bool goes_on_there = arrived.ok() && arrived->spec.has_value();
      EXPECT_FALSE(left.ok() && goes_on_there);
      EXPECT_EQ(Everything(*from), before);
      if (goes_on_there) {  // only its last word was lost
        EXPECT_EQ(Everything(*to), before);
        continue;
      }
      const auto again = MoveRun(*from, *to, OrderOf("m2"));
      ASSERT_TRUE(again.ok()) << again.status();
      EXPECT_EQ(Everything(*to), before);
      EXPECT_TRUE(to->Load().ok());
      EXPECT_FALSE(from->Load().ok());
    }
  }
  EXPECT_GT(deaths, 20);
}

// Would break: a run cannot come back to where it was, or takes the place of what it is not.
TEST(RunMove, GoesBackToTheStoreThatItLeft) {
  const TemporaryDirectory one, other;
  const auto first = OpenIn(one), second = OpenIn(other);
  FillWithRun(*first, 20);
  ASSERT_TRUE(MoveRun(*first, *second, OrderOf("m1")).ok());
  RunUpdate later;
  later.epoch = 77;
  later.members = {{"z", "z:1", "live"}};
  ASSERT_TRUE(second->Apply(later).ok());
  const std::string then = Everything(*second);
  const auto back = MoveRun(*second, *first, OrderOf("m2"));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(Everything(*first), then);
  EXPECT_TRUE(first->Load().ok());
  EXPECT_FALSE(second->Load().ok());
  // A store that was opened again is one that somebody may have gone on with.
  ASSERT_TRUE(UndoMove(*second).ok());
  const absl::Status both = MoveRun(*first, *second, OrderOf("m3")).status();
  EXPECT_TRUE(absl::IsAlreadyExists(both)) << both;
}

// Would break: a run is overwritten, or half of one is taken for a whole.
TEST(RunMove, RefusesWhatDoesNotFit) {
  const TemporaryDirectory one, other, third;
  const auto from = OpenIn(one), to = OpenIn(other), empty = OpenIn(third);
  FillWithRun(*from, 3);
  EXPECT_TRUE(absl::IsNotFound(MoveRun(*empty, *to, OrderOf("m")).status()));
  MoveOrder named = OrderOf("m");
  named.run_id = "short";
  const absl::Status misnamed = MoveRun(*from, *to, named).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(misnamed)) << misnamed;
  EXPECT_THAT(std::string(misnamed.message()),
              HasSubstr("holds run long, and [run] id names short"));
  FillWithRun(*to, 2);
  const std::string held = Everything(*to);
  const absl::Status taken = MoveRun(*from, *to, OrderOf("m")).status();
  EXPECT_TRUE(absl::IsAlreadyExists(taken)) << taken;
  EXPECT_THAT(std::string(taken.message()), HasSubstr("it holds run long already"));
  EXPECT_EQ(Everything(*to), held);
  EXPECT_TRUE(to->Load().ok());
  // A copy that is not whole is nobody's source.
  v1::StoreMark arriving;
  arriving.set_kind(v1::StoreMark::ARRIVING);
  arriving.set_run_id("long");
  ASSERT_TRUE(to->WriteMark(&arriving).ok());
  EXPECT_THAT(std::string(MoveRun(*to, *empty, OrderOf("m")).status().message()),
              HasSubstr("is not whole"));
  // Nor does another run take its place.
  arriving.set_run_id("other");
  ASSERT_TRUE(to->WriteMark(&arriving).ok());
  EXPECT_THAT(std::string(MoveRun(*from, *to, OrderOf("m")).status().message()),
              HasSubstr("the copy of run other"));
  EXPECT_TRUE(from->Load().ok());
}

// Would break: a broken history is carried on and on.
TEST(RunMove, ABrokenHistoryStaysWhereItIs) {
  const TemporaryDirectory one, other;
  const auto from = OpenIn(one), to = OpenIn(other);
  FillWithRun(*from, 20);
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(one.File("coordinator.db").c_str(), &database), SQLITE_OK);
  ASSERT_EQ(
      sqlite3_exec(database, "DELETE FROM headers WHERE version = 7", nullptr, nullptr, nullptr),
      SQLITE_OK);
  sqlite3_close(database);
  const absl::Status broken = MoveRun(*from, *to, OrderOf("m")).status();
  EXPECT_TRUE(absl::IsDataLoss(broken)) << broken;
  EXPECT_THAT(std::string(broken.message()), HasSubstr("header 7 is missing"));
  EXPECT_EQ(TextOf(*to->Load()), "- epoch 0 next 0");
}

// Would break: after the loss of the new store nobody can go on with the old one, or the rest of a
// copy stays for good.
TEST(RunMove, IsUndone) {
  const TemporaryDirectory one, other;
  const auto from = OpenIn(one), to = OpenIn(other);
  FillWithRun(*from, 3);
  const std::string before = Everything(*from);
  EXPECT_TRUE(absl::IsFailedPrecondition(UndoMove(*from).status()));
  DyingStore::Life life{5, true};
  DyingStore dying_to(*to, life);
  ASSERT_FALSE(MoveRun(*from, dying_to, OrderOf("m1")).ok());
  EXPECT_THAT(std::string(to->Load().status().message()), HasSubstr("is not whole"));
  EXPECT_EQ(UndoMove(*to)->kind(), v1::StoreMark::ARRIVING);
  EXPECT_EQ(TextOf(*to->Load()), "- epoch 0 next 0");
  ASSERT_TRUE(MoveRun(*from, *to, OrderOf("m2")).ok());
  const auto undone = UndoMove(*from);
  ASSERT_TRUE(undone.ok()) << undone.status();
  EXPECT_EQ(undone->other(), to->where());
  EXPECT_EQ(undone->version(), 3u);
  EXPECT_EQ(Everything(*from), before);
  EXPECT_TRUE(from->Load().ok());
}

// Would break: a backup is made of a store that the run has left, and taken for the run's.
TEST(RunMove, WhatHasMovedIsNotBackedUp) {
  const TemporaryDirectory one, other, copy;
  PosixFiles files;
  const auto from = OpenIn(one), to = OpenIn(other);
  FillWithRun(*from, 3);
  EXPECT_TRUE(SqliteStore::CheckUnmarked(files, one.path()).ok());
  ASSERT_TRUE(MoveRun(*from, *to, OrderOf("m1")).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(SqliteStore::CheckUnmarked(files, one.path())));
  EXPECT_TRUE(SqliteStore::CheckUnmarked(files, other.path()).ok());
  EXPECT_TRUE(absl::IsNotFound(SqliteStore::CheckUnmarked(files, copy.path())));
}

}  // namespace
}  // namespace atolld
