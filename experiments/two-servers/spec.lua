-- Requests as SPECweb99 mixes them: /DIRECTORY/CLASS_NUMBER, with directories by Zipf, 35, 50, 14 and 1 % of classes 0 to 3, and nine files of
-- each class that are asked for by their popularity.
local DIRECTORIES = 8
local CLASSES = { 35, 50, 14, 1 }
local NUMBERS = { 3.9, 5.9, 8.8, 17.7, 35.3, 11.8, 7.1, 5.0, 4.5 }

-- Sums of weights, of which the last is 1.
local function sums(weights)
  local all, sum, found = 0, 0, {}
  for _, weight in ipairs(weights) do all = all + weight end
  for place, weight in ipairs(weights) do
    sum = sum + weight / all
    found[place] = sum
  end
  found[#found] = 1
  return found
end

local function choose(summed)
  local drawn = math.random()
  for place, sum in ipairs(summed) do
    if drawn < sum then return place end
  end
  return #summed
end

local zipf = {}
for place = 1, DIRECTORIES do zipf[place] = 1 / place end
local directories, classes, numbers = sums(zipf), sums(CLASSES), sums(NUMBERS)
local requests = {}

-- All requests are drawn before: the clients' own work stays small.
function init(arguments)
  math.randomseed(1999)
  for place = 1, 4096 do
    local path = "/" .. choose(directories) - 1 .. "/" .. choose(classes) - 1 .. "_" .. choose(numbers)
    requests[place] = wrk.format("GET", path)
  end
end

local last = 0
function request()
  last = last % #requests + 1
  return requests[last]
end
