-- Executes one microbenchmark, whose table `plan` stands before this text: tables, rows, prepared,
-- distribution, exponent, hold_us, roll_back, and the steps of one event with their statements. In
-- a statement `<table>` stands for the table's number, `#` for a number, `@` for a text.

local ffi = require("ffi")
ffi.cdef[[int usleep(unsigned int microseconds);]]

local C_TEMPLATE = string.rep("###########", 10, "-")
local PAD_TEMPLATE = string.rep("###########", 5, "-")
local LONGEST_TEXT = 120

local uniform = sysbench.rand.uniform
local connection
local steps
-- Table and id of the last delete: its row is inserted again.
local deleted = {table = 1, id = 1}

-- Zipfian ranks by rejection-inversion (Hoermann and Derflinger, ACM TOMACS 6(3), 1996): by the
-- script, because sysbench has them only from 1.1 on.
local function zipfian(ranks, s)
   local function density(x) return x ^ -s end
   local function integral(x) return (x ^ (1 - s) - 1) / (1 - s) end
   local function inverse(area) return (1 + area * (1 - s)) ^ (1 / (1 - s)) end
   local first, last = integral(1.5) - 1, integral(ranks + 0.5)
   local squeeze = 2 - inverse(integral(2.5) - density(2))
   return function()
      while true do
         local area = last + sysbench.rand.uniform_double() * (first - last)
         local point = inverse(area)
         local rank = math.max(1, math.min(ranks, math.floor(point + 0.5)))
         if rank - point <= squeeze or area >= integral(rank + 0.5) - density(rank) then
            return rank
         end
      end
   end
end

local draw_id
if plan.distribution == "zipfian" then
   draw_id = zipfian(plan.rows, plan.exponent)
elseif plan.distribution == "constant" then
   draw_id = function() return 1 end
else
   draw_id = function() return uniform(1, plan.rows) end
end

-- Each puts values into a list from a place on and gives the place after them.
local draw = {}

function draw.ids(values, at, count)
   for i = at, at + count - 1 do
      values[i] = draw_id()
   end
   return at + count
end

function draw.hot(values, at, count)
   local hot = math.floor(plan.rows / 2)
   for i = 1, count do
      values[at + i - 1] = hot + i
   end
   return at + count
end

function draw.range(values, at, distance)
   local first = draw_id()
   values[at], values[at + 1] = first, first + distance
   return at + 2
end

function draw.delete(values, at, _, t)
   deleted.table, deleted.id = t, draw_id()
   values[at] = deleted.id
   return at + 1
end

function draw.deleted(values, at)
   values[at] = deleted.id
   return at + 1
end

function draw.k(values, at)
   values[at] = uniform(1, plan.rows)
   return at + 1
end

function draw.c(values, at)
   values[at] = sysbench.rand.string(C_TEMPLATE)
   return at + 1
end

function draw.pad(values, at)
   values[at] = sysbench.rand.string(PAD_TEMPLATE)
   return at + 1
end

local choose_table = {
   drawn = function() return uniform(1, plan.tables) end,
   own = function() return sysbench.tid % plan.tables + 1 end,
   deleted = function() return deleted.table end,
   none = function() return 1 end,
}

-- A function that executes a statement with the values of a list.
local function prepared(sql)
   local kinds = {}
   local text = sql:gsub("[#@]", function(mark)
      kinds[#kinds + 1] = mark
      return "?"
   end)
   local statement = connection:prepare(text)
   local params = {}
   for i, kind in ipairs(kinds) do
      if kind == "@" then
         params[i] = statement:bind_create(sysbench.sql.type.CHAR, LONGEST_TEXT)
      else
         params[i] = statement:bind_create(sysbench.sql.type.INT)
      end
   end
   if #params > 0 then
      statement:bind_param(unpack(params))
   end
   return function(values)
      for i = 1, #params do
         params[i]:set(values[i])
      end
      statement:execute()
   end
end

local function plain(sql)
   -- Text at odd places, values at even ones.
   local parts, quoted, from = {}, {}, 1
   for at, mark in sql:gmatch("()([#@])") do
      parts[#parts + 1] = sql:sub(from, at - 1)
      parts[#parts + 1] = ""
      quoted[#quoted + 1] = mark == "@"
      from = at + 1
   end
   parts[#parts + 1] = sql:sub(from)
   return function(values)
      for i = 1, #quoted do
         parts[2 * i] = quoted[i] and "'" .. values[i] .. "'" or values[i]
      end
      connection:query(table.concat(parts))
   end
end

function thread_init()
   connection = sysbench.sql.driver():connect()
   steps = {}
   for s, step in ipairs(plan.steps) do
      local execute = {}
      for t = 1, step.table == "none" and 1 or plan.tables do
         local sql = step.sql:gsub("<table>", t)
         execute[t] = plan.prepared and prepared(sql) or plain(sql)
      end
      local choose = choose_table[step.table]
      steps[s] = {times = step.times, choose = choose, draws = step.values, execute = execute,
                  values = {}}
   end
end

function event()
   for s = 1, #steps do
      local step = steps[s]
      local t = step.choose()
      local execute, values, draws = step.execute[t], step.values, step.draws
      for _ = 1, step.times do
         local at = 1
         for d = 1, #draws do
            at = draw[draws[d][1]](values, at, draws[d][2], t)
         end
         execute(values)
      end
   end
end

-- The server refused the event and sysbench begins it anew: not inside the old transaction. The
-- driver for PostgreSQL does this by itself.
function sysbench.hooks.before_restart_event(refused)
   if plan.roll_back then
      refused.connection:query("ROLLBACK")
   end
end

-- The connection stays open for a moment: whoever measures the server reads it meanwhile, and a
-- process of the server that ended is no longer there to be read.
function thread_done()
   -- In one piece, for other threads print at the same time.
   io.write("matrix: client " .. sysbench.tid .. " has ended\n")
   io.flush()
   ffi.C.usleep(plan.hold_us)
   connection:disconnect()
end
