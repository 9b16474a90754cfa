#include "daemon/coordinator/table_store.h"

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "compression/base/status_macros.h"

namespace atolld {

absl::StatusOr<StoredRun> TableStore::Load() {
  ASSIGN_OR_RETURN(const std::optional<v1::StoreMark> mark, ReadMark());
  if (mark) return MarkFault(*mark, where());
  return LoadTables();
}

absl::StatusOr<StoredRun> TableStore::LoadTables() {
  RETURN_IF_ERROR(PrepareToRead());
  StoredRun run;
  for (const absl::string_view table : LoadedTables()) {
    RETURN_IF_ERROR(
        ReadTable(table, [&](const RowColumns& columns) { return TakeRow(table, columns, &run); }));
  }
  return run;
}

bool IsSaid(const RowColumns& columns) {
  if (columns.size() < 2) return true;  // and TakeRow refuses it
  const auto* number = std::get_if<uint64_t>(&columns[1]);
  return number != nullptr ? *number != 0 : !std::get<std::string>(columns[1]).empty();
}

absl::Status MarkFault(const v1::StoreMark& mark, absl::string_view where) {
  const std::string when = absl::FormatTime(
      "%Y-%m-%d %H:%M UTC", absl::FromUnixSeconds(mark.at_unix()), absl::UTCTimeZone());
  if (mark.kind() == v1::StoreMark::MOVED) {
    return absl::FailedPreconditionError(absl::StrCat(
        where, ": run ", mark.run_id(), " has moved to ", mark.other(), " (", when, ", at version ",
        mark.version(),
        "): start its coordinator with a config that names that store; to go back, "
        "move the run with `atoll store migrate`, or with its --undo if that store is lost"));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      where, ": the copy of run ", mark.run_id(), " from ", mark.other(), " (", when,
      ") is not whole: call `atoll store migrate` again, or with --undo to remove it"));
}

}  // namespace atolld
