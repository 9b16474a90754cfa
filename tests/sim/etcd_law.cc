#include "tests/sim/etcd_law.h"

#include <utility>
#include <variant>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "daemon/coordinator/store_rows.h"
#include "daemon/etcd/etcd_rows.h"

namespace atolld {

namespace rpc = ::etcdserverpb;

namespace {

// Returns all that a store holds except headers, independent of the order in which it arrived.
std::string RowsText(const StoredRun& run) {
  RunUpdate all;
  all.spec = run.spec;
  all.epoch = run.epoch;
  all.started = run.started;
  all.control = run.control;
  all.genesis = run.genesis;
  all.leases = run.leases;
  all.members = run.members;
  all.rounds = run.rounds;
  all.evaluations = run.evaluations;
  all.seal = run.seal;
  all.tokens = run.tokens;
  all.certificates = run.certificates;
  all.judged = run.judged;
  std::map<std::string, std::string> rows;
  for (const RowChange& change : RowsOf(all)) {
    if (change.columns.empty()) continue;
    std::string key(change.table);
    std::string value;
    for (size_t i = 0; i < change.columns.size(); ++i) {
      const auto* const number = std::get_if<uint64_t>(&change.columns[i]);
      absl::StrAppend(i == 0 ? &key : &value, " ",
                      number != nullptr
                          ? absl::StrCat(*number)
                          : absl::CHexEscape(std::get<std::string>(change.columns[i])));
    }
    rows[key] = value;
  }
  std::string text = absl::StrCat("checkpoint ", run.checkpoint.version, "\n");
  for (const HistoryGap& gap : run.gaps) absl::StrAppend(&text, "gap ", gap.first, "\n");
  for (const auto& [key, value] : rows) absl::StrAppend(&text, key, ":", value, "\n");
  return text;
}

// Returns where two such texts differ.
std::string Difference(const std::string& read, const std::string& right) {
  size_t at = 0;
  while (at < read.size() && at < right.size() && read[at] == right[at]) ++at;
  const size_t line = at == 0 ? 0 : read.rfind('\n', at - 1) + 1;
  const auto line_of = [line](const std::string& text) {
    return text.substr(line, text.find('\n', line) - line);
  };
  return absl::StrCat("\"", line_of(read), "\" and \"", line_of(right), "\" is what was written");
}

}  // namespace

class EtcdLaw::WatchedStore final : public Store {
 public:
  WatchedStore(EtcdLaw& law, std::string who, std::shared_ptr<LeaderTerm> term,
               std::unique_ptr<Store> under)
      : law_(law), who_(std::move(who)), term_(std::move(term)), under_(std::move(under)) {}

  absl::StatusOr<StoredRun> Load() override {
    absl::StatusOr<StoredRun> run = under_->Load();
    if (!run.ok() || !Leads()) return run;
    const std::string read = RowsText(*run);
    const std::string right = RowsText(*MemoryStore(law_.rows_).Load());
    if (read != right) law_.violate_(4, absl::StrCat(who_, " reads ", Difference(read, right)));
    return run;
  }

  absl::Status Apply(const RunUpdate& update) override {
    Pending& pending = law_.pending_[term_->fence()];
    const size_t batches = BatchesOf(law_.prefix_, RowsOf(update)).size();
    pending = {update, batches > 1, batches == 0};
    const absl::Status applied = under_->Apply(update);
    if (applied.ok() && !pending.durable) {
      law_.violate_(4, absl::StrCat(who_, " was told that an update is durable, and it is not"));
    }
    if (absl::IsAlreadyExists(applied) || absl::IsInvalidArgument(applied) ||
        absl::IsDataLoss(applied)) {
      law_.violate_(3,
                    absl::StrCat(who_, " leads, and its update is refused: ", applied.ToString()));
    }
    return applied;
  }

  absl::StatusOr<std::vector<v1::EntryHeader>> ReadHeaders(uint64_t first,
                                                           uint32_t limit) override {
    auto headers = under_->ReadHeaders(first, limit);
    if (!headers.ok() || !Leads()) return headers;
    const auto right = *MemoryStore(law_.rows_).ReadHeaders(first, limit);
    bool same = right.size() == headers->size();
    for (size_t i = 0; same && i < right.size(); ++i) {
      same = right[i].SerializeAsString() == (*headers)[i].SerializeAsString();
    }
    if (!same) {
      law_.violate_(2, absl::StrCat(who_, " reads other headers from version ", first,
                                    " on than were written"));
    }
    return headers;
  }

  std::string where() const override { return under_->where(); }

 private:
  // Whose reads are those of nobody else's time.
  bool Leads() const { return law_.leader() == who_ && law_.fence_ == term_->fence(); }

  EtcdLaw& law_;
  const std::string who_;
  const std::shared_ptr<LeaderTerm> term_;
  const std::unique_ptr<Store> under_;
};

EtcdLaw::EtcdLaw(SimEtcd& etcd, std::string prefix, Violate violate)
    : etcd_(etcd),
      prefix_(std::move(prefix)),
      leader_key_(prefix_ + "leader"),
      authority_key_(prefix_ + "authority"),
      commit_key_(prefix_ + "last_commit"),
      parts_key_(prefix_ + "parts/count"),
      violate_(std::move(violate)) {
  etcd_.OnWrite([this](const SimEtcd::Write& write) { OnWrite(write); });
  etcd_.OnLeaseOver([this](int64_t lease) { OnLeaseOver(lease); });
}

std::string EtcdLaw::leader() const {
  return etcd_.state().Find(leader_key_) == nullptr ? "" : leader_;
}

std::unique_ptr<Store> EtcdLaw::Watch(const std::string& who, std::shared_ptr<LeaderTerm> term,
                                      std::unique_ptr<Store> store) {
  terms_by_lease_[term->lease()] = term;
  return std::make_unique<WatchedStore>(*this, who, std::move(term), std::move(store));
}

void EtcdLaw::OnLeaseOver(int64_t lease) {
  const auto found = terms_by_lease_.find(lease);
  if (found == terms_by_lease_.end()) return;
  const std::shared_ptr<LeaderTerm> term = found->second.lock();
  if (term == nullptr || term->over()) return;
  violate_(2, absl::StrCat("the lease of the term that began with revision ", term->fence(),
                           " is over, and its leader goes on"));
}

void EtcdLaw::OnWrite(const SimEtcd::Write& write) {
  std::string commit;
  bool rows = false;
  bool decides_parts = false;
  for (const rpc::RequestOp& operation : write.request.success()) {
    if (operation.has_request_delete_range()) rows = true;
    if (!operation.has_request_put()) continue;
    const std::string& key = operation.request_put().key();
    if (key == commit_key_) commit = operation.request_put().value();
    if (key == parts_key_) decides_parts = true;
    if (key == leader_key_) {
      leader_ = write.who;
      fence_ = write.response.header().revision();
      ++terms_;
    } else if (key != authority_key_) {
      rows = true;
    }
  }
  if (!rows) return;
  CheckWriter(write, commit);
  int64_t fence = 0;
  if (!absl::SimpleAtoi(commit.substr(0, commit.find('.')), &fence)) return;
  const auto found = pending_.find(fence);
  if (found == pending_.end()) return;
  Pending& pending = found->second;
  if (pending.durable || (pending.in_parts && !decides_parts)) return;
  pending.durable = true;
  const absl::Status applied = MemoryStore(rows_).Apply(pending.update);
  if (!applied.ok())
    violate_(2, absl::StrCat("what is written does not follow: ", applied.ToString()));
  if (on_durable_) on_durable_(pending.update);
}

void EtcdLaw::CheckWriter(const SimEtcd::Write& write, const std::string& commit) {
  const std::string now = leader();
  if (now != write.who || !absl::StartsWith(commit, absl::StrCat(fence_, "."))) {
    return violate_(
        2, absl::StrCat(write.who, " writes ", commit, ", and ", now.empty() ? "nobody" : now,
                        " leads since revision ", fence_));
  }
  if (!commits_.insert(commit).second) {
    violate_(3, absl::StrCat(write.who, " has written ", commit, " twice"));
  }
}

}  // namespace atolld
