#include "daemon/peer/run_files.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "daemon/config/config_sections.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/run_file_copy.h"
#include "membership/history/run_files.h"

namespace atolld {
namespace {

// A folder may be named instead of a file: the first of these files in it is used, as by the
// worker.
constexpr const char* kTokenizerNames[] = {"tokenizer.json", "tokenizer.model", "characters.json"};

// The files that the worker reads beside a tokenizer's own: they say what ends a text and how a
// conversation is written, or are used in place of a tokenizer.json that it cannot read.
constexpr const char* kBesideTokenizer[] = {"tokenizer_config.json",  "special_tokens_map.json",
                                            "generation_config.json", "config.json",
                                            "tokenizer.model",        "chat_template.jinja"};

// The pause before the peers are asked again for a file that none could give. Peers that have it
// may be starting.
constexpr absl::Duration kBetweenAsking = absl::Seconds(1);

constexpr const char* kRoles[] = {kTokenizerRole, kProgramRole, kValidationRole};

std::string KeyOf(absl::string_view role) {
  if (role == kTokenizerRole) return "[data] tokenizer";
  return role == kProgramRole ? "[model] file" : "[data] validation";
}

std::string OptionOf(absl::string_view role) {
  if (role == kValidationRole) return KeyOf(role);
  return absl::StrCat(KeyOf(role), " (`atolld join --",
                      role == kTokenizerRole ? "tokenizer" : "program", "`)");
}

// Returns true if workers of this run read a file of the role, unless their data includes it.
bool Takes(const v1::RunSpec& spec, absl::string_view role) {
  if (role == kTokenizerRole) return spec.data().tokenizer() == "file";
  if (role == kProgramRole) return spec.model().kind() == kTorchScriptKind;
  return spec.data().common_validation();
}

bool SameFiles(const v1::RunSpec& a, const v1::RunSpec& b) {
  return std::equal(a.files().begin(), a.files().end(), b.files().begin(), b.files().end(),
                    [](const v1::RunFile& one, const v1::RunFile& other) {
                      return one.role() == other.role() && one.name() == other.name() &&
                             one.digest() == other.digest();
                    });
}

}  // namespace

RunFiles::RunFiles(Env env, std::string dir, Own own, Task on_change)
    : env_(env),
      dir_(std::move(dir)),
      own_(std::move(own)),
      on_change_(std::move(on_change)),
      lines_(std::make_shared<RepeatedLines>(env.executor, env.log)) {}

RunFiles::~RunFiles() = default;

void RunFiles::Load() {
  if (!own_.tokenizer.empty()) LoadTokenizer();
  LoadOne(own_.program, kProgramRole);
  LoadOne(own_.validation, kValidationRole);
}

void RunFiles::LoadOne(const std::string& path, absl::string_view role) {
  if (path.empty()) return;
  const absl::StatusOr<v1::RunFile> file = ListFile(env_.files, path, role);
  if (file.ok()) {
    own_files_.push_back({path, *file});
  } else {
    env_.log.Warning(absl::StrCat(KeyOf(role), ": ", file.status().message()));
  }
}

void RunFiles::LoadTokenizer() {
  std::string path = own_.tokenizer;
  for (const char* name : kTokenizerNames) {
    const std::string within = absl::StrCat(own_.tokenizer, "/", name);
    if (!env_.files.Exists(within)) continue;
    path = within;
    break;
  }
  const absl::StatusOr<v1::RunFile> main = ListFile(env_.files, path, kTokenizerRole);
  if (!main.ok()) {
    return env_.log.Warning(absl::StrCat("[data] tokenizer: ", main.status().message()));
  }
  own_files_.push_back({path, *main});
  for (const char* name : kBesideTokenizer) {
    const std::string beside = absl::StrCat(DirectoryOf(path), "/", name);
    if (beside == path || !env_.files.Exists(beside)) continue;
    const absl::StatusOr<v1::RunFile> file = ListFile(env_.files, beside, kTokenizerRole);
    if (file.ok()) own_files_.push_back({beside, *file});
  }
}

std::vector<RunFiles::OwnFile> RunFiles::OwnOf(absl::string_view role) const {
  std::vector<OwnFile> files;
  for (const OwnFile& own : own_files_) {
    if (own.file.role() == role) files.push_back(own);
  }
  return files;
}

void RunFiles::List(v1::RunSpec* spec) const {
  for (const OwnFile& own : own_files_) {
    if (Takes(*spec, own.file.role())) *spec->add_files() = own.file;
  }
}

bool RunFiles::Needs(absl::string_view role) const {
  return Takes(spec_, role) && !(role == kTokenizerRole && own_.prepared);
}

// Returns true if the worker must use this machine's own file. If it differs from the run's, the
// worker refuses it and names both. For files beside a tokenizer, which the owner did not choose,
// and for common validation data, over which losses are added, the run's file is used instead.
bool RunFiles::UsesOwn(absl::string_view role) const {
  const std::vector<OwnFile> own = OwnOf(role);
  if (own.empty()) return false;
  const v1::RunFile* const main = FindRunFile(spec_, role);
  if (main == nullptr) return true;
  if (main->digest() != own.front().file.digest()) return role != kValidationRole;
  std::set<std::string> here, listed;
  for (size_t i = 1; i < own.size(); ++i) {
    here.insert(absl::StrCat(own[i].file.name(), " ", own[i].file.digest()));
  }
  for (const v1::RunFile& file : spec_.files()) {
    if (file.role() != role) continue;
    if (!Travels(file)) return true;
    if (&file != main) listed.insert(absl::StrCat(file.name(), " ", file.digest()));
  }
  return here == listed;
}

// Returns which of the role's files that the worker would take from the folder is missing, and why.
// Returns an empty text if none is missing.
std::string RunFiles::Lacks(absl::string_view role) const {
  for (int i = 0; i < spec_.files_size(); ++i) {
    const v1::RunFile& file = spec_.files(i);
    if (file.role() != role || kept_.count(i) > 0) continue;
    if (surveying_) return absl::StrCat("it looks for the run's ", Describe(file), " here");
    if (Travels(file)) {
      return absl::StrCat("it fetches the run's ", Describe(file), " from other peers");
    }
    return absl::StrCat("the run's ", Describe(file), " is larger than the ", kLargestRunFile >> 20,
                        " MiB that peers give to each other; name it with ", OptionOf(role));
  }
  return "";
}

std::string RunFiles::WaitsFor() const {
  for (const absl::string_view role : kRoles) {
    if (!Needs(role) || UsesOwn(role)) continue;
    if (!recorded_) {
      return absl::StrCat("it has no ", role, " of its own, and the run's comes with version 0, ",
                          "which another peer has to make; or name one with ", OptionOf(role));
    }
    const std::string lacks = Lacks(role);
    if (!lacks.empty()) return lacks;
  }
  return "";
}

std::string RunFiles::PlaceOf(absl::string_view role) const {
  const v1::RunFile* const main = FindRunFile(spec_, role);
  return main == nullptr || UsesOwn(role) ? "" : RunFilePath(dir_, *main);
}

RunFilePlaces RunFiles::places() const {
  return {Needs(kTokenizerRole) ? PlaceOf(kTokenizerRole) : "", PlaceOf(kProgramRole),
          Needs(kValidationRole) ? PlaceOf(kValidationRole) : ""};
}

void RunFiles::Follow(const v1::RunSpec& spec, bool recorded) {
  // Until version 0 is recorded, another version 0 with another list may become the run's.
  if (recorded_ && (!recorded || SameFiles(spec_, spec))) return;
  spec_ = spec;
  recorded_ = recorded;
  ++list_;
  fetch_.reset();
  kept_.clear();
  missing_.clear();
  if (!recorded_ || spec_.files().empty()) return;
  for (const absl::string_view role : kRoles) {
    if (OwnOf(role).empty() || UsesOwn(role)) continue;
    env_.log.Info(absl::StrCat(role == kValidationRole ? "" : "what lies beside ",
                               OwnOf(role).front().path,
                               " differs from the run's; the worker takes ", PlaceOf(role)));
  }
  Survey();
}

// Finds out which copies are in the folder. First copies this machine's own files that are the
// listed ones.
void RunFiles::Survey() {
  surveying_ = true;
  auto kept = std::make_shared<std::set<int>>();
  env_.executor.Offload(
      [files = &env_.files, dir = dir_, own = own_files_, spec = spec_, kept] {
        for (int i = 0; i < spec.files_size(); ++i) {
          const v1::RunFile& listed = spec.files(i);
          if (!Travels(listed)) continue;
          bool here = CheckCopy(*files, RunFilePath(dir, listed), listed).ok();
          for (const OwnFile& one : own) {
            if (here || one.file.role() != listed.role()) continue;
            here = one.file.digest() == listed.digest() &&
                   KeepCopy(*files, one.path, dir, listed).ok();
          }
          if (here) kept->insert(i);
        }
      },
      guard_.Wrap([this, kept, list = list_] {
        if (list == list_) OnSurveyed(*kept);
      }));
}

void RunFiles::OnSurveyed(const std::set<int>& kept) {
  surveying_ = false;
  kept_ = kept;
  for (int i = 0; i < spec_.files_size(); ++i) {
    if (kept_.count(i) == 0 && Travels(spec_.files(i))) missing_.push_back(i);
  }
  on_change_();
  FetchNext();
}

void RunFiles::SetDonors(std::vector<std::string> donors, absl::Duration failure_timeout) {
  donors_ = std::move(donors);
  failure_timeout_ = failure_timeout;
  if (fetch_ != nullptr) fetch_->SetDonors(donors_);
  FetchNext();
}

void RunFiles::FetchNext() {
  if (fetch_ != nullptr || pausing_ || missing_.empty() || donors_.empty()) return;
  FetchSource source;
  source.run_id = spec_.run_id();
  source.donors = donors_;
  source.failure_timeout = failure_timeout_;
  source.spec = spec_;
  source.lines = lines_;
  const int file = missing_.front();
  fetch_ = std::make_unique<FileFetch>(
      env_, std::move(source), dir_, file,
      guard_.Wrap([this, file](const absl::Status& status) { OnFetched(file, status); }));
}

void RunFiles::OnFetched(int file, const absl::Status& status) {
  fetch_.reset();
  missing_.pop_front();
  if (status.ok()) {
    env_.log.Info(absl::StrCat("fetched the run's ", Describe(spec_.files(file)), " into ",
                               RunFilePath(dir_, spec_.files(file))));
    kept_.insert(file);
    on_change_();
    return FetchNext();
  }
  missing_.push_back(file);
  lines_->Write(Log::Level::kWarning, WithoutNumbers(std::string(status.message())),
                absl::StrCat("the run's files: ", status.message(), "; asking again"));
  pausing_ = true;
  env_.executor.RunAfter(kBetweenAsking, guard_.Wrap([this] {
    pausing_ = false;
    FetchNext();
  }));
}

}  // namespace atolld
