#!/bin/bash
set -e
cd /app
echo paint > list.txt
