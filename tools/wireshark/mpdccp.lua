-- Wireshark / tshark dissector for Multipath DCCP (RFC 9897) and DCCP in UDP (RFC 6773).
--
--   tshark -X lua_script:tools/wireshark/mpdccp.lua -r capture.pcap
--
-- Wireshark's own dissector decodes native DCCP (IP protocol 33), but does not know option 46, feature 10 and Reset
-- Code 13. This script adds these as fields of `mpdccp`. For DCCP in UDP, this script decodes whole packets as
-- `dccpudp`, with the same `mpdccp` fields. It recognises these packets by port 6511 or by their contents. Records of
-- the encrypted tunnel, in UDP or as IP protocol 33, are decoded as `mpdccprec`. If DCCP in UDP is not recognised, name
-- the port:
--
--   tshark ... -d udp.port==7000,dccpudp

local mp = Proto("mpdccp", "Multipath DCCP")
local du = Proto("dccpudp", "DCCP in UDP")

local DEFAULT_UDP_PORT = 6511

local packet_types = {
    [0] = "Request", [1] = "Response", [2] = "Data", [3] = "Ack", [4] = "DataAck", [5] = "CloseReq", [6] = "Close",
    [7] = "Reset", [8] = "Sync", [9] = "SyncAck", [10] = "Listen",
}
local REQUEST, RESPONSE, DATA, ACK, DATAACK, RESET, LISTEN = 0, 1, 2, 3, 4, 7, 10

local reset_codes = {
    [0] = "Unspecified", [1] = "Closed", [2] = "Aborted", [3] = "No Connection", [4] = "Packet Error",
    [5] = "Option Error", [6] = "Mandatory Error", [7] = "Connection Refused", [8] = "Bad Service Code",
    [9] = "Too Busy", [10] = "Bad Init Cookie", [11] = "Aggression Penalty", [12] = "Encapsulated Port Reuse",
    [13] = "Abrupt MP termination",
}
local ABRUPT_MP_TERMINATION = 13

local option_names = {
    [0] = "Padding", [1] = "Mandatory", [2] = "Slow Receiver", [32] = "Change L", [33] = "Confirm L",
    [34] = "Change R", [35] = "Confirm R", [36] = "Init Cookie", [37] = "NDP Count", [38] = "Ack Vector [Nonce 0]",
    [39] = "Ack Vector [Nonce 1]", [40] = "Data Dropped", [41] = "Timestamp", [42] = "Timestamp Echo",
    [43] = "Elapsed Time", [44] = "Data Checksum", [46] = "Multipath",
}
local MULTIPATH = 46

local feature_names = {
    [1] = "CCID", [2] = "Allow Short Seqnos", [3] = "Sequence Window", [4] = "ECN Incapable", [5] = "Ack Ratio",
    [6] = "Send Ack Vector", [7] = "Send NDP Count", [8] = "Minimum Checksum Coverage", [9] = "Check Data Checksum",
    [10] = "Multipath Capable", [192] = "Send Loss Event Rate",
}
local MULTIPATH_CAPABLE = 10

local subtypes = {
    [0] = "MP_CONFIRM", [1] = "MP_JOIN", [2] = "MP_FAST_CLOSE", [3] = "MP_KEY", [4] = "MP_SEQ", [5] = "MP_HMAC",
    [6] = "MP_RTT", [7] = "MP_ADDADDR", [8] = "MP_REMOVEADDR", [9] = "MP_PRIO", [10] = "MP_CLOSE", [11] = "MP_EXP",
}
local key_types = { [0] = "Plain text", [255] = "Experimental" }
local key_lengths = { [0] = 8, [255] = 64 }
local rtt_types = { [0] = "Raw", [1] = "Minimum", [2] = "Maximum", [3] = "Smoothed" }

-- Multipath fields ---------------------------------------------------------------------------------------------------

local m = {
    option = ProtoField.none("mpdccp.option", "Multipath option"),
    length = ProtoField.uint8("mpdccp.length", "Length"),
    subtype = ProtoField.uint8("mpdccp.subtype", "Subtype", base.DEC, subtypes),
    confirm = ProtoField.bytes("mpdccp.confirm", "Confirmed options"),
    join_addr_id = ProtoField.uint8("mpdccp.join.addr_id", "Address ID"),
    join_ci = ProtoField.uint32("mpdccp.join.ci", "Connection identifier of the receiver", base.HEX),
    join_nonce = ProtoField.uint32("mpdccp.join.nonce", "Nonce", base.HEX),
    fast_close = ProtoField.bytes("mpdccp.fast_close.key", "Key data of the receiver"),
    key_reserved = ProtoField.uint8("mpdccp.key.reserved", "Reserved", base.HEX),
    key_ci = ProtoField.uint32("mpdccp.key.ci", "Connection identifier of the sender", base.HEX),
    key_type = ProtoField.uint8("mpdccp.key.type", "Key type", base.DEC, key_types),
    key_data = ProtoField.bytes("mpdccp.key.data", "Key data"),
    seq = ProtoField.uint64("mpdccp.seq", "Multipath sequence number"),
    hmac = ProtoField.bytes("mpdccp.hmac", "HMAC, leftmost 20 bytes"),
    rtt_type = ProtoField.uint8("mpdccp.rtt.type", "RTT type", base.DEC, rtt_types),
    rtt = ProtoField.uint32("mpdccp.rtt.rtt", "RTT (ms)"),
    rtt_age = ProtoField.uint32("mpdccp.rtt.age", "Age (ms)"),
    add_addr_id = ProtoField.uint8("mpdccp.addaddr.addr_id", "Address ID"),
    add_nonce = ProtoField.uint32("mpdccp.addaddr.nonce", "Nonce", base.HEX),
    add_ipv4 = ProtoField.ipv4("mpdccp.addaddr.ipv4", "IPv4 address"),
    add_ipv6 = ProtoField.ipv6("mpdccp.addaddr.ipv6", "IPv6 address"),
    add_port = ProtoField.uint16("mpdccp.addaddr.port", "Port"),
    remove_addr_id = ProtoField.uint8("mpdccp.removeaddr.addr_id", "Address ID"),
    remove_nonce = ProtoField.uint32("mpdccp.removeaddr.nonce", "Nonce", base.HEX),
    prio_reserved = ProtoField.uint8("mpdccp.prio.reserved", "Reserved", base.HEX, nil, 0xf0),
    prio = ProtoField.uint8("mpdccp.prio", "Priority", base.DEC, nil, 0x0f),
    close = ProtoField.bytes("mpdccp.close.key", "Key data of the receiver"),
    exp = ProtoField.bytes("mpdccp.exp", "Experimental data"),
    unknown = ProtoField.bytes("mpdccp.unknown", "Data"),
    capable = ProtoField.uint8("mpdccp.capable", "Multipath Capable in", base.DEC, option_names),
    version = ProtoField.uint8("mpdccp.capable.version", "Version", base.DEC, nil, 0xf0),
    reset = ProtoField.uint8("mpdccp.reset_code", "Reset Code", base.DEC, reset_codes),
}
mp.fields = m

local mp_malformed = ProtoExpert.new("mpdccp.malformed", "Malformed multipath option", expert.group.MALFORMED,
    expert.severity.ERROR)
local mp_unassigned = ProtoExpert.new("mpdccp.unassigned", "Unassigned multipath number", expert.group.UNDECODED,
    expert.severity.WARN)
mp.experts = { mp_malformed, mp_unassigned }

-- DCCP in UDP fields -------------------------------------------------------------------------------------------------

local d = {
    srcport = ProtoField.uint16("dccpudp.srcport", "Source port"),
    dstport = ProtoField.uint16("dccpudp.dstport", "Destination port"),
    offset = ProtoField.uint8("dccpudp.data_offset", "Data Offset (words)"),
    ccval = ProtoField.uint8("dccpudp.ccval", "CCVal", base.DEC, nil, 0xf0),
    cscov = ProtoField.uint8("dccpudp.cscov", "Checksum Coverage", base.DEC, nil, 0x0f),
    checksum = ProtoField.uint16("dccpudp.checksum", "Checksum (ignored in UDP)", base.HEX),
    type = ProtoField.uint8("dccpudp.type", "Type", base.DEC, packet_types, 0x1e),
    x = ProtoField.uint8("dccpudp.x", "Extended sequence numbers", base.DEC, nil, 0x01),
    seq = ProtoField.uint64("dccpudp.seq", "Sequence Number"),
    ack = ProtoField.uint64("dccpudp.ack", "Acknowledgement Number"),
    service_code = ProtoField.uint32("dccpudp.service_code", "Service Code"),
    reset_code = ProtoField.uint8("dccpudp.reset_code", "Reset Code", base.DEC, reset_codes),
    reset_data = ProtoField.bytes("dccpudp.reset_data", "Data 1-3"),
    option = ProtoField.none("dccpudp.option", "Option"),
    option_type = ProtoField.uint8("dccpudp.option_type", "Option type", base.DEC, option_names),
    option_data = ProtoField.bytes("dccpudp.option_data", "Option data"),
    feature = ProtoField.uint8("dccpudp.feature_number", "Feature", base.DEC, feature_names),
    feature_value = ProtoField.bytes("dccpudp.feature_value", "Value"),
    init_cookie = ProtoField.bytes("dccpudp.init_cookie", "Init Cookie"),
    ndp_count = ProtoField.uint64("dccpudp.ndp_count", "NDP Count"),
    ack_vector = ProtoField.bytes("dccpudp.ack_vector", "Ack Vector"),
    data_dropped = ProtoField.bytes("dccpudp.data_dropped", "Data Dropped"),
    timestamp = ProtoField.uint32("dccpudp.timestamp", "Timestamp (10 us)"),
    timestamp_echo = ProtoField.uint32("dccpudp.timestamp_echo", "Timestamp Echo (10 us)"),
    elapsed_time = ProtoField.uint32("dccpudp.elapsed_time", "Elapsed Time (10 us)"),
    data_checksum = ProtoField.uint32("dccpudp.checksum_data", "Data Checksum", base.HEX),
    data = ProtoField.bytes("dccpudp.data", "Application data"),
}
du.fields = d

local du_malformed = ProtoExpert.new("dccpudp.malformed", "Malformed DCCP packet", expert.group.MALFORMED,
    expert.severity.ERROR)
local du_checksum = ProtoExpert.new("dccpudp.checksum.nonzero", "DCCP checksum should be zero in UDP",
    expert.group.PROTOCOL, expert.severity.NOTE)
du.experts = { du_malformed, du_checksum }

-- Multipath options --------------------------------------------------------------------------------------------------

-- The table has a function for each subtype. The function gets the tree of the option, the bytes after the subtype and
-- their number. It adds these bytes to the tree, and returns a text for the summary, or nil if the length is invalid
-- for the subtype.
local values = {}

-- Calls visit(type, range of the whole option, range of its data or nil) for each option in order. If a length byte is
-- invalid, returns the range that could not be parsed.
local function each_option(area, visit)
    local at, len = 0, area:len()
    while at < len do
        local kind, size = area(at, 1):uint(), 1
        if kind >= 32 then
            if at + 2 > len then return area(at) end
            size = area(at + 1, 1):uint()
            if size < 2 or at + size > len then return area(at) end
        end
        visit(kind, area(at, size), size > 2 and area(at + 2, size - 2) or nil)
        at = at + size
    end
end

-- Adds one option 46 to the tree. Returns a text for the Info column.
local function add_multipath(tree, option)
    local branch = tree:add(m.option, option)
    branch:add(m.length, option(1, 1))
    if option:len() < 3 then
        branch:add_tvb_expert_info(mp_malformed, option, "Multipath option without a subtype")
        return "MP?"
    end
    local subtype = option(2, 1):uint()
    local name = subtypes[subtype] or string.format("MP option %d", subtype)
    branch:add(m.subtype, option(2, 1))
    local value = option:len() > 3 and option(3) or nil
    local text
    if values[subtype] then
        text = values[subtype](branch, value, value and value:len() or 0)
        if not text then
            branch:add_tvb_expert_info(mp_malformed, option, name .. " of invalid length " .. option:len())
        end
    else
        if value then branch:add(m.unknown, value) end
        branch:add_tvb_expert_info(mp_unassigned, option, "Unassigned multipath subtype")
    end
    branch:set_text(name .. (text and text ~= "" and ": " .. text or ""))
    return name .. (subtype == 4 and text and "=" .. text or "")
end

values[0] = function(tree, value, len)
    if len == 0 then return "" end
    local branch = tree:add(m.confirm, value)
    local names = {}
    local left = each_option(value, function(kind, option)
        if kind == MULTIPATH then names[#names + 1] = add_multipath(branch, option) end
    end)
    if left then branch:add_tvb_expert_info(mp_malformed, left, "Confirmed option of invalid length") end
    return table.concat(names, ", ")
end

values[1] = function(tree, value, len)
    if len ~= 9 then return end
    tree:add(m.join_addr_id, value(0, 1))
    tree:add(m.join_ci, value(1, 4))
    tree:add(m.join_nonce, value(5, 4))
    return "address " .. value(0, 1):uint()
end

values[2] = function(tree, value)
    if value then tree:add(m.fast_close, value) end
    return ""
end

values[3] = function(tree, value, len)
    if len < 6 then return end
    tree:add(m.key_reserved, value(0, 1))
    tree:add(m.key_ci, value(1, 4))
    local at = 5
    local names = {}
    while at < len do
        local kind = value(at, 1):uint()
        tree:add(m.key_type, value(at, 1))
        local size = key_lengths[kind]
        if not size then
            -- The length of an unassigned key type is unknown, so all remaining bytes count as its key.
            tree:add_tvb_expert_info(mp_unassigned, value(at, 1), "Unassigned key type")
            size = len - at - 1
        end
        if at + 1 + size > len then return end
        if size > 0 then tree:add(m.key_data, value(at + 1, size)) end
        names[#names + 1] = key_types[kind] or tostring(kind)
        at = at + 1 + size
    end
    return string.format("CI 0x%08x, %s", value(1, 4):uint(), table.concat(names, ", "))
end

values[4] = function(tree, value, len)
    if len ~= 6 then return end
    tree:add(m.seq, value)
    return tostring(value:uint64())
end

values[5] = function(tree, value, len)
    if len ~= 20 then return end
    tree:add(m.hmac, value)
    return ""
end

values[6] = function(tree, value, len)
    if len ~= 9 then return end
    local kind = value(0, 1):uint()
    tree:add(m.rtt_type, value(0, 1))
    if not rtt_types[kind] then
        tree:add_tvb_expert_info(mp_unassigned, value(0, 1), "Unassigned RTT type")
    end
    tree:add(m.rtt, value(1, 4))
    tree:add(m.rtt_age, value(5, 4))
    return string.format("%s %d ms, %d ms ago", rtt_types[kind] or "?", value(1, 4):uint(), value(5, 4):uint())
end

values[7] = function(tree, value, len)
    if len ~= 9 and len ~= 11 and len ~= 21 and len ~= 23 then return end
    tree:add(m.add_addr_id, value(0, 1))
    tree:add(m.add_nonce, value(1, 4))
    local size = len < 16 and 4 or 16
    local addr = value(5, size)
    tree:add(size == 4 and m.add_ipv4 or m.add_ipv6, addr)
    if len > 5 + size then tree:add(m.add_port, value(5 + size, 2)) end
    return string.format("%d is %s", value(0, 1):uint(), tostring(size == 4 and addr:ipv4() or addr:ipv6()))
end

values[8] = function(tree, value, len)
    if len ~= 5 then return end
    tree:add(m.remove_addr_id, value(0, 1))
    tree:add(m.remove_nonce, value(1, 4))
    return "address " .. value(0, 1):uint()
end

values[9] = function(tree, value, len)
    if len ~= 1 then return end
    tree:add(m.prio_reserved, value)
    tree:add(m.prio, value)
    return tostring(value:bitfield(4, 4))
end

values[10] = function(tree, value)
    if value then tree:add(m.close, value) end
    return ""
end

values[11] = function(tree, value)
    if value then tree:add(m.exp, value) end
    return ""
end

-- Adds a Change or Confirm option for feature 10 to the tree. Its value is a list of versions, each in the
-- upper half of a byte.
local function add_capable(tree, option)
    local branch = tree:add(m.capable, option(0, 1))
    local name = "empty Confirm"
    for at = 3, option:len() - 1 do
        branch:add(m.version, option(at, 1))
        name = "version " .. option(3, 1):bitfield(0, 4)
    end
    return "MP_CAPABLE " .. name
end

local function is_capable(kind, option)
    return kind >= 32 and kind <= 35 and option:len() >= 3 and option(2, 1):uint() == MULTIPATH_CAPABLE
end

-- The header ---------------------------------------------------------------------------------------------------------

-- Returns the positions of the parts of a packet, or nil and a text that says what is wrong with the packet.
local function layout(packet)
    local len = packet:len()
    if len < 12 then return nil, "the packet is shorter than a header" end
    local h = { type = packet(8, 1):bitfield(3, 4), long = packet(8, 1):bitfield(7, 1) == 1 }
    h.offset = packet(4, 1):uint() * 4
    if not packet_types[h.type] then return nil, "the packet type is reserved" end
    if not h.long and h.type ~= DATA and h.type ~= ACK and h.type ~= DATAACK then
        return nil, "short sequence numbers are invalid for packet type " .. packet_types[h.type]
    end
    h.seq = h.long and { 10, 6 } or { 9, 3 }
    local at = h.long and 16 or 12
    if h.type ~= REQUEST and h.type ~= DATA and h.type ~= LISTEN then
        h.ack = h.long and { at + 2, 6 } or { at + 1, 3 }
        at = at + (h.long and 8 or 4)
    end
    if h.type == REQUEST or h.type == RESPONSE or h.type == LISTEN then
        h.service_code = { at, 4 }
        at = at + 4
    elseif h.type == RESET then
        h.reset = at
        at = at + 4
    end
    h.options = at
    if h.offset < at then return nil, "the Data Offset is inside the header" end
    if h.offset > len then return nil, "the Data Offset is beyond the end of the packet" end
    return h
end

local function option_area(packet, h)
    return h.offset > h.options and packet(h.options, h.offset - h.options) or nil
end

-- DCCP in UDP --------------------------------------------------------------------------------------------------------

-- Adds the data of option types 32 to 44 to the tree. Returns false if the length is invalid for the option type.
local function add_option_data(tree, kind, option, data)
    local len = data and data:len() or 0
    if kind >= 32 and kind <= 35 then
        if len < 1 then return false end
        tree:add(d.feature, data(0, 1))
        if len > 1 then tree:add(d.feature_value, data(1)) end
        if is_capable(kind, option) then add_capable(tree, option) end
    elseif kind == 36 then
        if data then tree:add(d.init_cookie, data) end
    elseif kind == 37 then
        if len < 1 or len > 6 then return false end
        tree:add(d.ndp_count, data)
    elseif kind == 38 or kind == 39 then
        if data then
            local branch = tree:add(d.ack_vector, data)
            local states = { [0] = "received", "ECN marked", "reserved", "not received" }
            for at = 0, len - 1 do
                local cell = data(at, 1)
                branch:append_text(string.format(", %d %s", cell:bitfield(2, 6) + 1, states[cell:bitfield(0, 2)]))
            end
        end
    elseif kind == 40 then
        if data then tree:add(d.data_dropped, data) end
    elseif kind == 41 then
        if len ~= 4 then return false end
        tree:add(d.timestamp, data)
    elseif kind == 42 then
        if len ~= 4 and len ~= 6 and len ~= 8 then return false end
        tree:add(d.timestamp_echo, data(0, 4))
        if len > 4 then tree:add(d.elapsed_time, data(4)) end
    elseif kind == 43 then
        if len ~= 2 and len ~= 4 then return false end
        tree:add(d.elapsed_time, data)
    elseif kind == 44 then
        if len ~= 4 then return false end
        tree:add(d.data_checksum, data)
    elseif data then
        tree:add(d.option_data, data)
    end
    return true
end

local function add_options(tree, area)
    local names = {}
    local left = each_option(area, function(kind, option, data)
        local branch = tree:add(d.option, option)
        local name = option_names[kind] or (kind >= 128 and "CCID option " or "Option ") .. kind
        branch:set_text(name)
        branch:add(d.option_type, option(0, 1))
        if kind == MULTIPATH then
            names[#names + 1] = add_multipath(branch, option)
        elseif not add_option_data(branch, kind, option, data) then
            branch:add_tvb_expert_info(du_malformed, option, name .. " of invalid length " .. option:len())
        end
    end)
    if left then tree:add_tvb_expert_info(du_malformed, left, "Option of invalid length") end
    return names
end

local function dissect_udp(tvb, pinfo, root)
    local packet = tvb()
    pinfo.cols.protocol = "DCCP/UDP"
    local tree = root:add(du, packet)
    local h, wrong = layout(packet)
    if h and (packet(5, 1):bitfield(4, 4) - 1) * 4 > packet:len() - h.offset then
        h, wrong = nil, "the Checksum Coverage is larger than the packet"
    end
    if not h then
        tree:add_tvb_expert_info(du_malformed, packet, "Malformed DCCP packet: " .. wrong)
        pinfo.cols.info = "Malformed DCCP packet: " .. wrong
        return packet:len()
    end
    tree:add(d.srcport, packet(0, 2))
    tree:add(d.dstport, packet(2, 2))
    tree:add(d.offset, packet(4, 1))
    tree:add(d.ccval, packet(5, 1))
    tree:add(d.cscov, packet(5, 1))
    tree:add(d.checksum, packet(6, 2))
    if packet(6, 2):uint() ~= 0 then tree:add_tvb_expert_info(du_checksum, packet(6, 2)) end
    tree:add(d.type, packet(8, 1))
    tree:add(d.x, packet(8, 1))
    local info = string.format("%d → %d [%s] Seq=%s", packet(0, 2):uint(), packet(2, 2):uint(), packet_types[h.type],
        tostring(packet(h.seq[1], h.seq[2]):uint64()))
    tree:add(d.seq, packet(h.seq[1], h.seq[2]))
    if h.ack then
        tree:add(d.ack, packet(h.ack[1], h.ack[2]))
        info = info .. " Ack=" .. tostring(packet(h.ack[1], h.ack[2]):uint64())
    end
    if h.service_code then tree:add(d.service_code, packet(h.service_code[1], 4)) end
    if h.reset then
        local code = packet(h.reset, 1)
        tree:add(d.reset_code, code)
        tree:add(d.reset_data, packet(h.reset + 1, 3))
        if code:uint() == ABRUPT_MP_TERMINATION then tree:add(m.reset, code) end
        info = info .. " " .. (reset_codes[code:uint()] or "code " .. code:uint())
    end
    local area = option_area(packet, h)
    if area then
        for _, name in ipairs(add_options(tree, area)) do info = info .. " " .. name end
    end
    if h.offset < packet:len() then
        tree:add(d.data, packet(h.offset))
        info = info .. " Len=" .. packet:len() - h.offset
    end
    pinfo.cols.info = info
    return packet:len()
end


-- On other ports, a packet counts as DCCP only if it has all the properties below. Packets of other protocols rarely
-- have them all.
local function looks_like_dccp(tvb)
    local packet = tvb()
    local h = layout(packet)
    if not h or not h.long or packet(0, 2):uint() == 0 or packet(2, 2):uint() == 0 then return false end
    local zero = packet(5, 3):bitfield(4, 20) == 0 and packet(8, 1):bitfield(0, 3) == 0 and packet(9, 1):uint() == 0
    if not zero or (h.ack and packet(16, 2):uint() ~= 0) then return false end
    local area = option_area(packet, h)
    return not area or each_option(area, function() end) == nil
end

-- Records of the encrypted tunnel (docs/channels.md). Only fields that are visible without keys are decoded.
-- `mpdccp tunnel decrypt` decrypts the records of a capture.

local re = Proto("mpdccprec", "MPDCCP record")

local record_kinds = { "Record", "Initiation", "Response", "Cookie" }
local r = {
    server = ProtoField.uint24("mpdccprec.server", "Number of the receiving server (0: any)"),
    shard = ProtoField.uint8("mpdccprec.shard", "Shard"),
    slot = ProtoField.uint24("mpdccprec.slot", "Slot", base.HEX),
    counter = ProtoField.uint64("mpdccprec.counter", "Counter"),
    kind = ProtoField.uint8("mpdccprec.kind", "Kind", base.DEC,
        { [0] = "Record", [1] = "Initiation", [2] = "Response", [3] = "Cookie" }),
    index = ProtoField.uint32("mpdccprec.index", "Index of the initiator", base.HEX),
    noise = ProtoField.bytes("mpdccprec.noise", "Noise message"),
    mac1 = ProtoField.bytes("mpdccprec.mac1", "Authentication code made with the receiver's public key (mac1)"),
    mac2 = ProtoField.bytes("mpdccprec.mac2", "Authentication code made with the cookie (mac2)"),
    cookie = ProtoField.bytes("mpdccprec.cookie", "Sealed cookie"),
    sealed = ProtoField.bytes("mpdccprec.sealed", "Sealed packet"),
    tag = ProtoField.bytes("mpdccprec.tag", "Tag"),
}
re.fields = r
local RECORD_TYPE, RECORD_HEADER, RECORD_TAG, MAC = 0x52, 16, 16, 16
local INITIATION_LEN, RESPONSE_LEN = 172, 104

-- Returns 0 for a record, 1 to 3 for handshake messages, and nil for other packets.
local function record_kind(packet)
    if packet:len() < RECORD_HEADER + RECORD_TAG or packet(0, 1):uint() ~= RECORD_TYPE then return nil end
    if packet(8, 4):uint() == 0xffffffff and packet(12, 4):uint() >= 0xfffffffd then
        return 0x100000000 - packet(12, 4):uint()
    end
    return 0
end

local function dissect_record(tvb, pinfo, root)
    local packet = tvb()
    local kind = record_kind(packet)
    local tree = root:add(re, packet)
    pinfo.cols.protocol = "MPDCCP-REC"
    tree:add(r.kind, packet(8, 8), kind)
    tree:add(r.server, packet(1, 3))
    tree:add(r.shard, packet(4, 1))
    tree:add(r.slot, packet(5, 3))
    local len = packet:len()
    local info = string.format("%s to %d/%d/%06x", record_kinds[kind + 1], packet(1, 3):uint(), packet(4, 1):uint(),
        packet(5, 3):uint())
    if kind == 0 then
        tree:add(r.counter, packet(8, 8))
        if len > RECORD_HEADER + RECORD_TAG then
            tree:add(r.sealed, packet(RECORD_HEADER, len - RECORD_HEADER - RECORD_TAG))
        end
        tree:add(r.tag, packet(len - RECORD_TAG))
        info = info .. " Counter=" .. tostring(packet(8, 8):uint64()) .. " Len=" .. len - RECORD_HEADER - RECORD_TAG
    elseif kind == 3 then
        tree:add(r.cookie, packet(RECORD_HEADER))
    elseif len == INITIATION_LEN or len == RESPONSE_LEN then
        local at = RECORD_HEADER
        if kind == 1 then
            tree:add(r.index, packet(at, 4))
            at = at + 4
        end
        tree:add(r.noise, packet(at, len - at - 2 * MAC))
        tree:add(r.mac1, packet(len - 2 * MAC, MAC))
        tree:add(r.mac2, packet(len - MAC, MAC))
    end
    pinfo.cols.info = info
    return len
end

function du.dissector(tvb, pinfo, root)
    if record_kind(tvb()) and not looks_like_dccp(tvb) then return dissect_record(tvb, pinfo, root) end
    return dissect_udp(tvb, pinfo, root)
end

function re.dissector(tvb, pinfo, root)
    return record_kind(tvb()) and dissect_record(tvb, pinfo, root) or 0
end

-- On other ports, only handshake messages are recognised, because records have no distinctive contents. For records,
-- use -d udp.port==7000,mpdccprec.
re:register_heuristic("udp", function(tvb, pinfo, root)
    if (record_kind(tvb()) or 0) == 0 then return false end
    dissect_record(tvb, pinfo, root)
    return true
end)

du:register_heuristic("udp", function(tvb, pinfo, root)
    if not looks_like_dccp(tvb) then return false end
    dissect_udp(tvb, pinfo, root)
    return true
end)
DissectorTable.get("udp.port"):add(DEFAULT_UDP_PORT, du)
DissectorTable.get("udp.port"):add_for_decode_as(re)

-- Records can also be sent as IP protocol 33, although they are not DCCP packets. Byte 8 tells them apart: a DCCP
-- packet has the packet type and X there, and a record the first byte of its counter. In a record, this byte is 0.
-- In DCCP, 0 would mean a Request with X = 0, but Requests have X = 1. In a handshake message, the byte is 255,
-- which is not a DCCP packet type.

local plain = DissectorTable.get("ip.proto"):get_dissector(33)
local p33 = Proto("mpdccpraw", "DCCP or MPDCCP record as IP protocol 33")

function p33.dissector(tvb, pinfo, root)
    if record_kind(tvb()) and not layout(tvb()) then return dissect_record(tvb, pinfo, root) end
    return plain:call(tvb, pinfo, root)
end
DissectorTable.get("ip.proto"):add(33, p33)

-- Native DCCP: after Wireshark's own dissector -----------------------------------------------------------------------

local native = Field.new("dccp")

-- Adds the multipath items that Wireshark 4.0 shows as reserved or unknown: option 46, feature 10 and Reset
-- Code 13.
local function dissect_native(packet, pinfo, root)
    local h = layout(packet)
    if not h then return end
    local tree
    local names = {}
    local function branch()
        tree = tree or root:add(mp, packet(0, h.offset))
        return tree
    end
    if h.reset and packet(h.reset, 1):uint() == ABRUPT_MP_TERMINATION then
        branch():add(m.reset, packet(h.reset, 1))
        names[1] = reset_codes[ABRUPT_MP_TERMINATION]
    end
    local area = option_area(packet, h)
    if area then
        each_option(area, function(kind, option)
            if kind == MULTIPATH then
                names[#names + 1] = add_multipath(branch(), option)
            elseif is_capable(kind, option) then
                names[#names + 1] = add_capable(branch(), option)
            end
        end)
    end
    if #names > 0 then pinfo.cols.info:append(" " .. table.concat(names, " ")) end
end

function mp.dissector(_, pinfo, root)
    for _, info in ipairs({ native() }) do
        -- The tree item covers only the header, not the data.
        dissect_native(info.range, pinfo, root)
    end
end
register_postdissector(mp)
