#!/bin/bash
set -e
cd /app
echo paint > start.txt
echo carrot > result.txt
