#include "support/error.h"

#include <system_error>

namespace isopro {

void invalid(const std::string& what) { throw Error("INVALID_ARGUMENT", what); }

std::string refusal(int systemError, const std::string& code) {
  const std::error_condition condition = std::system_category().default_error_condition(systemError);
  if (condition == std::errc::not_enough_memory) return "OUT_OF_MEMORY";
  for (const std::errc limit :
       {std::errc::too_many_files_open, std::errc::too_many_files_open_in_system, std::errc::resource_unavailable_try_again}) {
    if (condition == limit) return "SYSTEM_LIMIT";
  }
  return code;
}

}  // namespace isopro
