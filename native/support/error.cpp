#include "support/error.h"
